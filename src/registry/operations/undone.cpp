// Which operations of a history are in force. The graph is asked in places of the fixed order, a few bytes an operation
// and only where something was taken back; what operations say is read from the stage.
#include <algorithm>
#include <map>

#include "base/json.h"
#include "registry/operations/content.h"
#include "registry/operations/operation_stage.h"
#include "registry/operations/undo.h"

namespace mlx::registry {
namespace {

bool lists(const Json& body, const char* key, const std::string& digest) {
  const auto list = body.find(key);
  if (list == body.end() || !list->is_array()) return false;
  return std::ranges::any_of(*list, [&](const Json& item) {
    return item.is_string() ? item.get_ref<const std::string&>() == digest : text_in(item, "version") == digest;
  });
}

// What a body that builds on an operation holds: the digest that the operation made or is. "" where nothing can.
std::string named_by_builders(const Operation& operation) {
  if (operation.kind == "alias.move") return operation.id.text();
  if (operation.kind != "version.create") return {};
  return text_in(parse_json(operation.body, "operation " + operation.id.brief()), "digest");
}

using Place = std::uint32_t;  // counts from 0

class UndoRule {
 public:
  explicit UndoRule(OperationStage& history) : history_(history) {
    history.visit_kind(kUndoKind, [&](const Operation& undo) {
      const Json body = parse_json(undo.body, "operation " + undo.id.brief());
      const auto target = history.place_of(Digest::parse(text_in(body, "operation")));
      if (target) undos_[static_cast<Place>(*target - 1)].push_back(static_cast<Place>(*history.place_of(undo.id) - 1));
    });
    if (!undos_.empty()) read_parents();
  }

  // From the last to the first: whether an operation is in force depends on later ones only.
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

  // Someone who knew the target and not its undo has built on it.
  bool overruled(const Operation& target, Place at, Place undo, const std::vector<bool>& undone) {
    const std::string named = named_by_builders(target);
    if (named.empty()) return false;
    const std::vector<bool> knew_target = descendants(at), knew_undo = descendants(undo);
    const Json body = parse_json(target.body, "operation " + target.id.brief());
    for (Place i = at + 1; i < history_.size(); ++i) {
      if (!knew_target[i] || knew_undo[i] || undone[i]) continue;
      const Operation later = history_.at(i + 1);
      if (later.body.find(named) == std::string::npos) continue;
      if (builds_on(later, parse_json(later.body, "operation " + later.id.brief()), target, body)) return true;
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

  OperationStage& history_;
  std::map<Place, std::vector<Place>> undos_;  // operation → the undos that name it
  std::vector<std::uint64_t> first_parent_;    // of each place, into parents_
  std::vector<Place> parents_;
};

}  // namespace

bool builds_on(const Operation& later, const Json& b, const Operation& earlier, const Json& a) {
  if (earlier.kind == "alias.move") return later.kind == "alias.move" && lists(b, "replaces", earlier.id.text());
  if (earlier.kind != "version.create") return false;
  const std::string digest = text_in(a, "digest");
  if (later.kind == "version.create") return text_in(b, "parent") == digest;
  if (later.kind == "attach") return text_in(b, "version") == digest;
  if (later.kind == "run.start") return lists(b, "inputs", digest);
  if (later.kind == "run.end") return lists(b, "outputs", digest);
  return text_in(b, "artifact") == text_in(a, "artifact") && text_in(b, "digest") == digest;
}

bool holds_undo(OperationStage& operations) {
  bool any = false;
  operations.visit_kind(kUndoKind, [&](const Operation&) { any = true; });
  return any;
}

OperationSet undone_operations(OperationStage& history) {
  return UndoRule(history).undone();
}

}  // namespace mlx::registry
