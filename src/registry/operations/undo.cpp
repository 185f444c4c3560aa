// Which operations this clone may take back. What that comes to is a rule of its own: undone.cpp.
#include "registry/operations/undo.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "registry/operations/apply.h"
#include "registry/operations/content.h"
#include "registry/operations/history.h"
#include "registry/operations/operation_text.h"
#include "registry/versions/names.h"

namespace mlx::registry {
namespace {

// What an operation is about: only the last one in force about a thing can be taken back.
std::string subject_key(const Operation& operation, const Json& body) {
  const auto key = [&](const char* what, const char* one, const char* two) {
    return std::string(what) + '\0' + text_in(body, one) + '\0' + text_in(body, two);
  };
  if (operation.kind == "alias.move") return key("alias", "artifact", "alias");
  if (operation.kind == "tag.create" || operation.kind == "tag.delete")
    return key("tag", "artifact", "tag") + text_in(body, "digest");
  if (operation.kind == "version.renumber") return key("number", "artifact", "digest");
  if (operation.kind == "attach") return key("attached", "version", "name") + text_in(body, "kind");
  return operation.id.text();
}

bool can_be_undone(const std::string& kind) {
  constexpr const char* kKinds[] = {"version.create", "version.renumber", "alias.move", "tag.create",
                                    "tag.delete",     "attach",           kUndoKind};
  return std::ranges::any_of(kKinds, [&](const char* known) { return kind == known; });
}

// A history with what is asked of it again and again; indices are places in the fixed order.
class Graph {
 public:
  explicit Graph(const std::vector<Operation>& ordered) : ordered_(ordered), bodies_(ordered.size()) {
    for (std::size_t i = 0; i < ordered.size(); ++i) place_.emplace(ordered[i].id, i);
    for (std::size_t i = 0; i < ordered.size(); ++i) {
      if (ordered[i].kind != kUndoKind) continue;
      if (const auto target = find(Digest::parse(text_in(body(i), "operation")))) undos_[*target].push_back(i);
    }
  }

  std::optional<std::size_t> find(const Digest& id) const {
    const auto found = place_.find(id);
    return found == place_.end() ? std::nullopt : std::optional(found->second);
  }
  const Operation& at(std::size_t i) const { return ordered_[i]; }
  std::size_t size() const { return ordered_.size(); }
  const Json& body(std::size_t i) {
    if (!bodies_[i]) bodies_[i] = parse_json(ordered_[i].body, "operation " + ordered_[i].id.brief());
    return *bodies_[i];
  }
  // What an undo names, and what that names, down to the operation that does something.
  std::size_t subject(std::size_t i) {
    while (ordered_[i].kind == kUndoKind) i = place_.at(Digest::parse(text_in(body(i), "operation")));
    return i;
  }
  bool builds(std::size_t later, std::size_t earlier) {
    return builds_on(ordered_[later], body(later), ordered_[earlier], body(earlier));
  }
  std::string subject_of(std::size_t i) { return subject_key(ordered_[i], body(i)); }

  std::vector<bool> ancestors(std::size_t of) const {
    std::vector<bool> found(ordered_.size(), false);
    for (std::vector<std::size_t> todo = {of}; !todo.empty();) {
      const std::size_t i = todo.back();
      todo.pop_back();
      for (const Digest& parent : ordered_[i].parents) {
        const auto place = find(parent);
        if (!place || found[*place]) continue;
        found[*place] = true;
        todo.push_back(*place);
      }
    }
    return found;
  }

  // When an operation in force came into force: when it was made or, where it was taken back since, when the last of
  // those undos was taken back in turn.
  std::size_t in_force_since(std::size_t i, const std::vector<bool>& undone) const {
    std::size_t since = i;
    for (const std::size_t undo : undos_of(i)) {
      if (!undone[undo]) continue;
      for (const std::size_t redo : undos_of(undo)) {
        if (!undone[redo]) since = std::max(since, in_force_since(redo, undone));
      }
    }
    return since;
  }

 private:
  const std::vector<std::size_t>& undos_of(std::size_t i) const {
    static const std::vector<std::size_t> none;
    const auto found = undos_.find(i);
    return found == undos_.end() ? none : found->second;
  }

  const std::vector<Operation>& ordered_;
  std::vector<std::optional<Json>> bodies_;
  std::unordered_map<Digest, std::size_t, DigestHash> place_;
  std::unordered_map<std::size_t, std::vector<std::size_t>> undos_;  // operation → the undos that name it
};

std::vector<bool> undone_in(store::Database& db, const Graph& graph) {
  std::vector<bool> undone(graph.size(), false);
  store::Statement select = db.prepare("SELECT operation FROM undone");
  while (select.step()) {
    if (const auto place = graph.find(select.digest(0))) undone[*place] = true;
  }
  return undone;
}

bool is_operation_prefix(const std::string& id) {
  return is_hex_prefix(id);
}

std::size_t by_id(const Graph& graph, const std::string& text) {
  const std::string digits = text.starts_with("sha256:") ? text.substr(7) : text;
  if (!is_operation_prefix(digits)) {
    throw Error(ErrorKind::kUsage, fmt::format("'{}' is no operation", text),
                "give at least 8 hex digits of its id: `mlx audit log` lists them");
  }
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < graph.size(); ++i) {
    if (graph.at(i).id.hex().starts_with(digits)) found.push_back(i);
  }
  if (found.empty()) {
    throw Error(ErrorKind::kNotFound, fmt::format("no operation has an id that begins with {}", digits),
                "`mlx audit log` lists them");
  }
  if (found.size() > 1) {
    throw Error(ErrorKind::kConflict, fmt::format("{} operations have an id that begins with {}", found.size(), digits),
                "type more digits of the id");
  }
  return found[0];
}

// An undo of a plain operation where `redo`, a plain operation otherwise. Who pushes is said by no command of the
// user's.
bool is_wanted(Graph& graph, std::size_t i, bool redo) {
  const Operation& operation = graph.at(i);
  if ((operation.kind == kUndoKind) != redo || operation.kind.starts_with("actor.")) return false;
  return !redo || graph.at(*graph.find(Digest::parse(text_in(graph.body(i), "operation")))).kind != kUndoKind;
}

// This person's that came into force last.
std::size_t last_own(Graph& graph, const std::vector<bool>& undone, const std::string& actor, bool redo) {
  std::optional<std::size_t> last;
  bool any = false;
  for (std::size_t i = 0; i < graph.size(); ++i) {
    if (graph.at(i).actor != actor || !graph.at(i).is_signed() || !is_wanted(graph, i, redo)) continue;
    any = true;
    if (undone[i]) continue;
    if (!last || graph.in_force_since(i, undone) > graph.in_force_since(*last, undone)) last = i;
  }
  if (last) return *last;
  const char* why = redo  ? "nothing to redo: nothing that you took back here is still taken back"
                    : any ? "nothing to undo: all that you did here is taken back"
                          : "nothing to undo: you have done nothing here yet";
  throw Error(ErrorKind::kNotFound, why,
              any && !redo ? "`mlx undo --redo` brings the last of it back; `mlx audit log` lists all operations"
                           : "`mlx audit log` lists what was done, and by whom");
}

std::string named(const Operation& operation) {
  return fmt::format("{} ({})", operation.id.brief(), operation_text(operation));
}

void require_allowed(const Operation& operation, const Operation& subject, Repository& repository) {
  if (!can_be_undone(subject.kind)) {
    const bool run = subject.kind.starts_with("run.");
    throw Error(ErrorKind::kRefused,
                fmt::format("{}: {}", named(subject), run ? "the record of a run is kept" : "this is never undone"),
                "an earlier operation can be named: `mlx undo OPERATION`; `mlx audit log` lists them");
  }
  if (operation.actor != repository.actor() || !operation.is_signed()) {
    const bool here = repository.own_actors().contains(operation.actor);
    throw Error(
        ErrorKind::kRefused,
        fmt::format("{}: {} made it ({})", named(operation), here ? "somebody else" : "another clone", operation.actor),
        fmt::format("it is undone {}; `mlx promote` and `mlx tag -d` change what it did",
                    here ? "with their key" : "there"));
  }
}

// A move of the same alias that knows nothing of this one, nor this one of it: taking one back settles which holds.
bool is_other_side(Graph& graph, std::size_t other, std::size_t target, std::size_t subject) {
  return graph.at(subject).kind == "alias.move" && graph.at(other).kind == "alias.move" &&
         !graph.ancestors(other)[target];
}

std::string way_on(const Operation& later, Repository& repository) {
  if (later.kind.starts_with("run.")) return "what a run used or made stays";
  if (later.actor == repository.actor()) return fmt::format("take that back first: mlx undo {}", later.id.brief());
  return fmt::format("{} made it: `mlx promote` and `mlx tag -d` change what holds now", later.actor);
}

// kConflict where something in force is later and builds on it, or is about the same thing.
void require_free(Graph& graph, const std::vector<bool>& undone, std::size_t target, std::size_t subject,
                  Repository& repository) {
  const std::vector<bool> before = graph.ancestors(target);
  for (std::size_t i = graph.size(); i-- > 0;) {
    if (before[i] || i == target || undone[i] || graph.at(i).kind == kUndoKind || i == subject) continue;
    if (!graph.builds(i, subject) && graph.subject_of(i) != graph.subject_of(subject)) continue;
    if (is_other_side(graph, i, target, subject)) continue;
    const Operation& later = graph.at(i);
    throw Error(ErrorKind::kConflict, fmt::format("{}: {} came later", named(graph.at(subject)), named(later)),
                way_on(later, repository));
  }
}

// What is brought back may name a version that was taken back meanwhile.
void require_version(Repository& repository, Graph& graph, std::size_t subject) {
  const Json& body = graph.body(subject);
  const std::string& kind = graph.at(subject).kind;
  if (kind != "alias.move" && kind != "tag.create" && kind != "version.renumber") return;
  store::Statement select = repository.db().prepare("SELECT 1 FROM versions WHERE artifact = ? AND digest = ?");
  if (select.bind(text_in(body, "artifact"), Digest::parse(text_in(body, "digest"))).step()) return;
  throw Error(ErrorKind::kConflict, fmt::format("{}: its version was taken back", named(graph.at(subject))),
              "bring that back first: `mlx audit log` shows its undo");
}

}  // namespace

InForce::InForce(store::Database& db)
    : undone_(db.prepare("SELECT 1 FROM undone WHERE operation = ?")),
      named_(db.prepare("SELECT 1 FROM people WHERE actor = ? AND blob = ?")) {}

bool InForce::operator()(const Operation& operation) {
  if (operation.kind != "actor.describe") {
    const bool taken_back = undone_.bind(operation.id).step();
    undone_.reset();
    return !taken_back;
  }
  const Json body = parse_json(operation.body, "operation " + operation.id.brief());
  const bool stands = named_.bind(operation.actor, Digest::parse(text_in(body, "blob"))).step();
  named_.reset();
  return stands;
}

std::vector<Operation> in_force(store::Database& db, std::vector<Operation> operations) {
  InForce stands(db);
  std::erase_if(operations, [&](const Operation& operation) { return !stands(operation); });
  return operations;
}

// The effect is in undone_operations(); here only that it can be one.
void apply_operation_undo(const Application& a) {
  const Digest target = a.digest("operation");
  store::Statement select = a.db.prepare("SELECT kind, bytes FROM operations WHERE id = ?");
  if (!select.bind(target).step() || !a.follows(target)) a.corrupt("takes back an operation that is not before it");
  if (!same_maker(decode(select.blob(1)), a.operation)) a.corrupt("takes back what another actor made");
  if (!can_be_undone(select.text(0))) a.corrupt("takes back what is never undone");
}

Undoing plan_undo(Repository& repository, const std::string& id, bool redo) {
  const std::vector<Operation> operations = repository.operations();
  Graph graph(operations);
  const std::vector<bool> undone = undone_in(repository.db(), graph);
  const std::size_t target = id.empty() ? last_own(graph, undone, repository.actor(), redo) : by_id(graph, id);
  const std::size_t subject = graph.subject(target);
  Undoing plan;
  plan.operation = graph.at(target);
  plan.subject = graph.at(subject);
  plan.brings_back = undone[subject];
  plan.shared = repository.store().has(store::ObjectKind::kOperation, plan.operation.id);
  require_allowed(plan.operation, plan.subject, repository);
  plan.unchanged = undone[target];
  if (plan.unchanged) return plan;
  require_free(graph, undone, target, subject, repository);
  if (plan.brings_back) require_version(repository, graph, subject);
  return plan;
}

Undoing undo(Repository& repository, const std::string& id, bool redo, Digest* made) {
  Undoing plan;
  const auto recorded = repository.record_with(kUndoKind, [&](Json& body) {
    plan = plan_undo(repository, id, redo);
    body["operation"] = plan.operation.id.text();
    return !plan.unchanged;
  });
  if (made && recorded) *made = recorded->id;
  return plan;
}

}  // namespace mlx::registry
