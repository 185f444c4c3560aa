// Which operations this clone may undo, according to their kinds' rows. For the effect see operations/undone.h.
#include "registry/record/undo.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "registry/keys/trust.h"
#include "registry/operations/body.h"
#include "registry/operations/history.h"
#include "registry/operations/names.h"
#include "registry/operations/undone.h"

namespace mlx::registry {
namespace {

// The subject of an operation: only the last operation in force on a subject can be undone.
std::string subject_key(const Kinds& kinds, const Operation& operation, const Json& body) {
  const UndoRule& rule = kinds.at(operation.kind).undo;
  if (!rule.thing) return operation.id.text();
  std::string key = rule.thing;
  for (const char* const part : rule.keys) {
    if (part) key += '\0' + text_in(body, part);
  }
  return key;
}

// A history prepared for repeated queries; indices are places in the fixed order.
class Graph {
 public:
  Graph(const Kinds& kinds, const std::vector<Operation>& ordered)
      : kinds_(kinds), ordered_(ordered), bodies_(ordered.size()) {
    for (std::size_t i = 0; i < ordered.size(); ++i) place_.emplace(ordered[i].id, i);
    for (std::size_t i = 0; i < ordered.size(); ++i) {
      if (const auto of = taken_back_by(i)) undos_[*of].push_back(i);
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
  // Follows undos down to the operation that is not an undo.
  std::size_t subject(std::size_t i) {
    while (const auto of = taken_back_by(i)) i = *of;
    return i;
  }
  // The place of the operation that this one undoes; nullopt if it is not an undo.
  std::optional<std::size_t> taken_back_by(std::size_t i) const {
    const std::optional<Digest> id = registry::taken_back_by(kinds_, ordered_[i]);
    return id ? find(*id) : std::nullopt;
  }
  const Kind& kind(std::size_t i) const { return kinds_.at(ordered_[i].kind); }
  bool builds(std::size_t later, std::size_t earlier) {
    return builds_on(kinds_, ordered_[later], body(later), ordered_[earlier], body(earlier));
  }
  std::string subject_of(std::size_t i) { return subject_key(kinds_, ordered_[i], body(i)); }

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

  // When an operation in force came into force: when it was made or, if it was undone and restored since, when its last
  // undo was undone.
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

  const Kinds& kinds_;
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

// With `redo` an undo of a plain operation, otherwise a plain operation. Skips operations that
// name an actor: they are recorded beside others, and no command asks for them.
bool is_wanted(Graph& graph, std::size_t i, bool redo) {
  const std::optional<std::size_t> of = graph.taken_back_by(i);
  if (of.has_value() != redo || graph.kind(i).traits.tells_names) return false;
  return !redo || !graph.taken_back_by(*of);
}

// This person's operation that came into force last.
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
              any && !redo ? "`mlx undo --redo` restores the last of them; `mlx audit log` lists all operations"
                           : "`mlx audit log` lists what was done, and by whom");
}

void require_allowed(const Operation& operation, const Operation& subject, Repository& repository) {
  const Kinds& kinds = repository.kinds();
  if (const char* const never = kinds.at(subject.kind).undo.never) {
    throw Error(ErrorKind::kRefused, fmt::format("{}: {}", described(kinds, subject), never),
                "an earlier operation can be named: `mlx undo OPERATION`; `mlx audit log` lists them");
  }
  if (operation.actor != repository.actor() || !operation.is_signed()) {
    const bool here = repository.own_actors().contains(operation.actor);
    throw Error(ErrorKind::kRefused,
                fmt::format("{}: {} made it ({})", described(kinds, operation),
                            here ? "somebody else" : "another clone", operation.actor),
                fmt::format("it is undone {}; `mlx promote` and `mlx tag -d` change what it did",
                            here ? "with their key" : "there"));
  }
}

// A concurrent move of the same alias. Undoing one of the two resolves the conflict.
bool is_other_side(Graph& graph, std::size_t other, std::size_t target, std::size_t subject) {
  return graph.kind(subject).undo.both_hold && graph.at(other).kind == graph.at(subject).kind &&
         !graph.ancestors(other)[target];
}

std::string way_on(const Operation& later, Repository& repository) {
  if (const UndoRule& rule = repository.kinds().at(later.kind).undo; rule.never) return rule.stays;
  if (later.actor == repository.actor()) return fmt::format("undo that first: mlx undo {}", later.id.brief());
  return fmt::format("{} made it: `mlx promote` and `mlx tag -d` change what holds now", later.actor);
}

// Throws kConflict if a later operation in force builds on this one, or has the same subject.
void require_free(Graph& graph, const std::vector<bool>& undone, std::size_t target, std::size_t subject,
                  Repository& repository) {
  const std::vector<bool> before = graph.ancestors(target);
  for (std::size_t i = graph.size(); i-- > 0;) {
    if (before[i] || i == target || undone[i] || graph.taken_back_by(i) || i == subject) continue;
    if (!graph.builds(i, subject) && graph.subject_of(i) != graph.subject_of(subject)) continue;
    if (is_other_side(graph, i, target, subject)) continue;
    const Operation& later = graph.at(i);
    throw Error(ErrorKind::kConflict,
                fmt::format("{}: {} came later", described(repository.kinds(), graph.at(subject)),
                            described(repository.kinds(), later)),
                way_on(later, repository));
  }
}

// A restored operation may name a version whose making was undone meanwhile.
void require_version(Repository& repository, Graph& graph, std::size_t subject) {
  const Json& body = graph.body(subject);
  const Kind& kind = graph.kind(subject);
  const DigestField* const version = kind.content.find(Role::kReference);
  const std::optional<Digest> digest = kind.undo.needs_version && version ? Body(body).digest(*version) : std::nullopt;
  if (!digest) return;
  store::Statement select = repository.db().prepare("SELECT 1 FROM versions WHERE artifact = ? AND digest = ?");
  if (select.bind(text_in(body, "artifact"), *digest).step()) return;
  throw Error(ErrorKind::kConflict,
              fmt::format("{}: its version was taken back", described(repository.kinds(), graph.at(subject))),
              "restore the version first: `mlx audit log` shows its undo");
}

}  // namespace

Undoing plan_undo(Repository& repository, const std::string& id, bool redo) {
  const std::vector<Operation> operations = repository.operations();
  Graph graph(repository.kinds(), operations);
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
  const auto recorded = repository.record_with("operation.undo", [&](Json& body) {
    plan = plan_undo(repository, id, redo);
    body["operation"] = plan.operation.id.text();
    return !plan.unchanged;
  });
  if (made && recorded) *made = recorded->id;
  return plan;
}

}  // namespace mlx::registry
