// Which operations of a history are in force. The graph is held as places in the fixed order, a few bytes per
// operation, and only if something was undone. Bodies are read from the stage.
#include "registry/operations/undone.h"

#include <algorithm>
#include <functional>
#include <map>

#include "base/json.h"
#include "registry/operations/body.h"
#include "registry/operations/content.h"
#include "registry/operations/operation_stage.h"

namespace mlx::registry {
namespace {

// The digest that a body holds if it builds on the operation: the version that the operation made, or its id. "" if
// nothing can build on it.
std::string named_by_builders(const Kinds& kinds, const Operation& operation) {
  const Kind* const kind = kinds.find(operation.kind);
  if (!kind) return {};
  if (kind->content.has(Role::kReplaced)) return operation.id.text();
  const std::vector<Digest> made = content_of(kinds, operation).of(Role::kVersion);
  return made.empty() ? std::string() : made.front().text();
}

bool names_any(const Kind& kind, const Json& body, Role role, const Digest& wanted) {
  bool found = false;
  for (const DigestField& field : kind.content.fields()) {
    if (field.role == role) Body(body).visit(field, [&](const Digest& digest) { found = found || digest == wanted; });
  }
  return found;
}

// A reference to a version by an artifact's name means that artifact's version.
bool is_about(const Json& later, const Json& earlier) {
  return !later.contains("artifact") || text_in(later, "artifact") == text_in(earlier, "artifact");
}

void visit_undos(const Kinds& kinds, OperationStage& history,
                 const std::function<void(const Operation& undo, const Digest& of)>& visit) {
  for (const Kind* const kind : kinds.rows()) {
    if (!kind->content.has(Role::kTakenBack)) continue;
    history.visit_kind(std::string(kind->name), [&](const Operation& undo) {
      if (const auto of = taken_back_by(kinds, undo)) visit(undo, *of);
    });
  }
}

using Place = std::uint32_t;  // counts from 0

class UndoneRule {
 public:
  UndoneRule(const Kinds& kinds, OperationStage& history) : kinds_(kinds), history_(history) {
    visit_undos(kinds, history, [&](const Operation& undo, const Digest& of) {
      const auto target = history.place_of(of);
      if (target) undos_[static_cast<Place>(*target - 1)].push_back(static_cast<Place>(*history.place_of(undo.id) - 1));
    });
    if (!undos_.empty()) read_parents();
  }

  // From the last to the first: whether an operation is in force depends only on later ones.
  OperationSet undone() {
    std::vector<bool> undone(history_.size(), false);
    OperationSet ids;
    for (auto target = undos_.rbegin(); target != undos_.rend(); ++target) {
      const Operation operation = history_.at(target->first + 1);
      undone[target->first] = std::ranges::any_of(target->second, [&](Place undo) {
        return undo > target->first && !undone[undo] && !overruled(operation, target->first, undo, undone);
      });
      if (undone[target->first]) ids.insert(operation.id);
    }
    return ids;
  }

 private:
  void read_parents() {
    first_parent_.reserve(history_.size() + 1);
    history_.visit([&](const Operation& operation) {
      first_parent_.push_back(parents_.size());
      for (const Digest& parent : operation.parents) {
        if (const auto place = history_.place_of(parent)) parents_.push_back(static_cast<Place>(*place - 1));
      }
    });
    first_parent_.push_back(parents_.size());
  }

  // Somebody who knew of the target, but not of its undo, has built on it.
  bool overruled(const Operation& target, Place at, Place undo, const std::vector<bool>& undone) {
    const std::string named = named_by_builders(kinds_, target);
    if (named.empty()) return false;
    const std::vector<bool> knew_target = descendants(at), knew_undo = descendants(undo);
    const Json body = parse_json(target.body, "operation " + target.id.brief());
    for (Place i = at + 1; i < history_.size(); ++i) {
      if (!knew_target[i] || knew_undo[i] || undone[i]) continue;
      const Operation later = history_.at(i + 1);
      if (later.body.find(named) == std::string::npos) continue;
      if (builds_on(kinds_, later, parse_json(later.body, "operation " + later.id.brief()), target, body)) return true;
    }
    return false;
  }

  std::vector<bool> descendants(Place of) const {
    std::vector<bool> reached(history_.size(), false);
    reached[of] = true;
    for (Place i = of + 1; i < history_.size(); ++i) {
      for (std::uint64_t p = first_parent_[i]; p < first_parent_[i + 1]; ++p) {
        if (reached[parents_[p]]) reached[i] = true;
      }
    }
    return reached;
  }

  const Kinds& kinds_;
  OperationStage& history_;
  std::map<Place, std::vector<Place>> undos_;  // operation → the undos that name it
  std::vector<std::uint64_t> first_parent_;    // by place: index into parents_
  std::vector<Place> parents_;
};

}  // namespace

std::optional<Digest> taken_back_by(const Kinds& kinds, const Operation& operation) {
  const Kind* const kind = kinds.find(operation.kind);
  const DigestField* const field = kind ? kind->content.find(Role::kTakenBack) : nullptr;
  if (!field) return std::nullopt;
  return Body(parse_json(operation.body, "operation " + operation.id.brief())).digest(*field);
}

bool builds_on(const Kinds& kinds, const Operation& later, const Json& b, const Operation& earlier, const Json& a) {
  const Kind *const builder = kinds.find(later.kind), *const base = kinds.find(earlier.kind);
  if (!builder || !base) return false;
  if (names_any(*builder, b, Role::kReplaced, earlier.id)) return true;
  bool builds = false;
  for (const DigestField& field : base->content.fields()) {
    if (field.role != Role::kVersion) continue;
    Body(a).visit(field, [&](const Digest& made) {
      builds = builds || names_any(*builder, b, Role::kParent, made) ||
               (is_about(b, a) && names_any(*builder, b, Role::kReference, made));
    });
  }
  return builds;
}

bool holds_undo(const Kinds& kinds, OperationStage& operations) {
  bool any = false;
  visit_undos(kinds, operations, [&](const Operation&, const Digest&) { any = true; });
  return any;
}

OperationSet undone_operations(const Kinds& kinds, OperationStage& history) {
  return UndoneRule(kinds, history).undone();
}

InForce::InForce(store::Database& db, const Kinds& kinds)
    : db_(db), kinds_(kinds), undone_(db.prepare("SELECT 1 FROM undone WHERE operation = ?")) {}

bool InForce::operator()(const Operation& operation, const Json& body) {
  const bool taken_back = undone_.bind(operation.id).step();
  undone_.reset();
  const Kind* const kind = kinds_.find(operation.kind);
  return !taken_back && (!kind || !kind->keeps || kind->keeps(db_, operation, body));
}

}  // namespace mlx::registry
