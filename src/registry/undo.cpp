// Which operations are in force, and which of them this clone may take back.
#include "registry/undo.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "registry/apply.h"
#include "registry/history.h"
#include "registry/names.h"
#include "registry/operation_text.h"

namespace mlx::registry {
namespace {

constexpr const char* kUndo = "operation.undo";

std::string string_in(const Json& body, const char* key) {
  const auto found = body.find(key);
  return found != body.end() && found->is_string() ? found->get<std::string>() : std::string();
}

bool lists(const Json& body, const char* key, const std::string& digest) {
  const auto list = body.find(key);
  if (list == body.end() || !list->is_array()) return false;
  return std::ranges::any_of(*list, [&](const Json& item) {
    return item.is_string() ? item.get_ref<const std::string&>() == digest : string_in(item, "version") == digest;
  });
}

// Does `later` build on what `earlier` did? Such an operation keeps `earlier` in force.
bool builds_on(const Operation& later, const Json& b, const Operation& earlier, const Json& a) {
  if (earlier.kind == "alias.move") return later.kind == "alias.move" && lists(b, "replaces", earlier.id.text());
  if (earlier.kind != "version.create") return false;
  const std::string digest = string_in(a, "digest");
  if (later.kind == "version.create") return string_in(b, "parent") == digest;
  if (later.kind == "attach") return string_in(b, "version") == digest;
  if (later.kind == "run.start") return lists(b, "inputs", digest);
  if (later.kind == "run.end") return lists(b, "outputs", digest);
  return string_in(b, "artifact") == string_in(a, "artifact") && string_in(b, "digest") == digest;
}

// What an operation is about: only the last one in force about a thing can be taken back.
std::string subject_key(const Operation& operation, const Json& body) {
  const auto key = [&](const char* what, const char* one, const char* two) {
    return std::string(what) + '\0' + string_in(body, one) + '\0' + string_in(body, two);
  };
  if (operation.kind == "alias.move") return key("alias", "artifact", "alias");
  if (operation.kind == "tag.create" || operation.kind == "tag.delete")
    return key("tag", "artifact", "tag") + string_in(body, "digest");
  if (operation.kind == "version.renumber") return key("number", "artifact", "digest");
  if (operation.kind == "attach") return key("attached", "version", "name") + string_in(body, "kind");
  return operation.id.text();
}

bool can_be_undone(const std::string& kind) {
  constexpr const char* kKinds[] = {"version.create", "version.renumber", "alias.move", "tag.create",
                                    "tag.delete",     "attach",           kUndo};
  return std::ranges::any_of(kKinds, [&](const char* known) { return kind == known; });
}

// A history with what is asked of it again and again; indices are places in the fixed order.
class Graph {
 public:
  explicit Graph(const std::vector<Operation>& ordered) : ordered_(ordered), bodies_(ordered.size()) {
    for (std::size_t i = 0; i < ordered.size(); ++i) {
      place_.emplace(ordered[i].id, i);
      if (ordered[i].kind != kUndo) continue;
      if (const auto target = find(Digest::parse(string_in(body(i), "operation")))) undos_[*target].push_back(i);
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
    while (ordered_[i].kind == kUndo) i = place_.at(Digest::parse(string_in(body(i), "operation")));
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

  // From the last to the first: whether an operation is in force depends on later ones only.
  std::vector<bool> undone() {
    std::vector<bool> undone(ordered_.size(), false);
    for (auto target = undos_.rbegin(); target != undos_.rend(); ++target) {
      undone[target->first] = std::ranges::any_of(target->second, [&](std::size_t undo) {
        return undo > target->first && !undone[undo] && !overruled(target->first, undo, undone);
      });
    }
    return undone;
  }

 private:
  bool overruled(std::size_t target, std::size_t undo, const std::vector<bool>& undone) {
    if (ordered_[target].kind != "version.create" && ordered_[target].kind != "alias.move") return false;
    const std::vector<bool>&knew_target = descendants(target), &knew_undo = descendants(undo);
    for (std::size_t i = target + 1; i < ordered_.size(); ++i) {
      if (knew_target[i] && !knew_undo[i] && !undone[i] && builds(i, target)) return true;
    }
    return false;
  }

  const std::vector<bool>& descendants(std::size_t of) {
    std::vector<bool>& reached = descendants_[of];
    if (!reached.empty()) return reached;
    reached.assign(ordered_.size(), false);
    reached[of] = true;
    for (std::size_t i = of + 1; i < ordered_.size(); ++i) {
      for (const Digest& parent : ordered_[i].parents) {
        const auto place = find(parent);
        if (place && reached[*place]) reached[i] = true;
      }
    }
    return reached;
  }

  const std::vector<Operation>& ordered_;
  std::vector<std::optional<Json>> bodies_;
  std::unordered_map<Digest, std::size_t, DigestHash> place_;
  std::map<std::size_t, std::vector<std::size_t>> undos_;  // operation → the undos that name it
  std::unordered_map<std::size_t, std::vector<bool>> descendants_;
};

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

// The last of this clone's that is in force: an undo of a plain operation where `redo`, a plain operation otherwise.
std::size_t last_own(Graph& graph, const std::vector<bool>& undone, const std::string& actor, bool redo) {
  for (std::size_t i = graph.size(); i-- > 0;) {
    const Operation& operation = graph.at(i);
    if (operation.actor != actor || !operation.is_signed() || undone[i] || (operation.kind == kUndo) != redo) continue;
    if (operation.kind.starts_with("actor.")) continue;  // no command of the user's: push says who pushes
    if (!redo || graph.at(*graph.find(Digest::parse(string_in(graph.body(i), "operation")))).kind != kUndo) return i;
  }
  throw Error(ErrorKind::kNotFound,
              redo ? "nothing to redo: this clone has taken nothing back" : "nothing to undo: this clone made nothing",
              "`mlx audit log` lists all operations");
}

std::string named(const Operation& operation) {
  return fmt::format("{} ({})", operation.id.brief(), operation_text(operation));
}

void require_allowed(const Operation& operation, const Operation& subject, const std::string& actor) {
  if (!can_be_undone(subject.kind)) {
    const bool run = subject.kind.starts_with("run.");
    throw Error(ErrorKind::kRefused,
                fmt::format("{}: {}", named(subject), run ? "the record of a run is kept" : "this is never undone"),
                "an earlier operation can be named: `mlx undo OPERATION`; `mlx audit log` lists them");
  }
  if (operation.actor != actor || !operation.is_signed()) {
    throw Error(ErrorKind::kRefused, fmt::format("{}: another clone made it ({})", named(operation), operation.actor),
                "it is undone there; `mlx promote` and `mlx tag -d` change what it did");
  }
}

// kConflict where something in force is later and builds on it, or is about the same thing.
void require_free(Graph& graph, const std::vector<bool>& undone, std::size_t target, std::size_t subject) {
  const std::vector<bool> before = graph.ancestors(target);
  for (std::size_t i = graph.size(); i-- > 0;) {
    if (before[i] || i == target || undone[i] || graph.at(i).kind == kUndo || i == subject) continue;
    if (!graph.builds(i, subject) && graph.subject_of(i) != graph.subject_of(subject)) continue;
    const Operation& later = graph.at(i);
    throw Error(ErrorKind::kConflict, fmt::format("{}: {} came later", named(graph.at(subject)), named(later)),
                later.kind.starts_with("run.") ? "what a run used or made stays"
                                               : fmt::format("take that back first: mlx undo {}", later.id.brief()));
  }
}

// What is brought back may name a version that was taken back meanwhile.
void require_version(Repository& repository, Graph& graph, std::size_t subject) {
  const Json& body = graph.body(subject);
  const std::string& kind = graph.at(subject).kind;
  if (kind != "alias.move" && kind != "tag.create" && kind != "version.renumber") return;
  store::Statement select = repository.db().prepare("SELECT 1 FROM versions WHERE artifact = ? AND digest = ?");
  if (select.bind(string_in(body, "artifact"), Digest::parse(string_in(body, "digest"))).step()) return;
  throw Error(ErrorKind::kConflict, fmt::format("{}: its version was taken back", named(graph.at(subject))),
              "bring that back first: `mlx audit log` shows its undo");
}

}  // namespace

OperationSet undone_operations(const std::vector<Operation>& ordered) {
  OperationSet set;
  if (std::ranges::none_of(ordered, [](const Operation& operation) { return operation.kind == kUndo; })) return set;
  const std::vector<bool> undone = Graph(ordered).undone();
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    if (undone[i]) set.insert(ordered[i].id);
  }
  return set;
}

bool is_undone(store::Database& db, const Digest& id) {
  return db.prepare("SELECT 1 FROM undone WHERE operation = ?").bind(id).step();
}

std::vector<Operation> in_force(store::Database& db, std::vector<Operation> operations) {
  store::Statement undone = db.prepare("SELECT 1 FROM undone WHERE operation = ?");
  store::Statement named = db.prepare("SELECT 1 FROM people WHERE actor = ? AND blob = ?");
  std::erase_if(operations, [&](const Operation& operation) {
    const bool taken_back = undone.bind(operation.id).step();
    undone.reset();
    if (operation.kind != "actor.describe") return taken_back;
    const Json body = parse_json(operation.body, "operation " + operation.id.brief());
    const bool stands = named.bind(operation.actor, Digest::parse(string_in(body, "blob"))).step();
    named.reset();
    return !stands;
  });
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
  const std::vector<bool> undone = graph.undone();
  const std::size_t target = id.empty() ? last_own(graph, undone, repository.actor(), redo) : by_id(graph, id);
  const std::size_t subject = graph.subject(target);
  Undoing plan;
  plan.operation = graph.at(target);
  plan.subject = graph.at(subject);
  plan.brings_back = undone[subject];
  plan.shared = repository.store().has(store::ObjectKind::kOperation, plan.operation.id);
  require_allowed(plan.operation, plan.subject, repository.actor());
  plan.unchanged = undone[target];
  if (plan.unchanged) return plan;
  require_free(graph, undone, target, subject);
  if (plan.brings_back) require_version(repository, graph, subject);
  return plan;
}

Undoing undo(Repository& repository, const std::string& id, bool redo, Digest* made) {
  Undoing plan;
  const auto recorded = repository.record_with(kUndo, [&](Json& body) {
    plan = plan_undo(repository, id, redo);
    body["operation"] = plan.operation.id.text();
    return !plan.unchanged;
  });
  if (made && recorded) *made = recorded->id;
  return plan;
}

}  // namespace mlx::registry
