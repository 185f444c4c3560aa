// One row for each kind, one file for each family (kinds/).
#include "registry/operations/kinds.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"

namespace mlx::registry {

extern const Kind kVersionCreate, kVersionRenumber, kVersionLost;           // kinds/versions.cpp
extern const Kind kAliasMove, kTagCreate, kTagDelete;                       // kinds/labels.cpp
extern const Kind kAttach;                                                  // kinds/attachments.cpp
extern const Kind kRunStart, kRunCheckpoint, kRunResume, kRunEnd, kRunLog;  // kinds/runs.cpp
extern const Kind kActorDescribe, kActorForget;                             // kinds/people.cpp
extern const Kind kDomainAssign, kKeyErase;                                 // kinds/keys.cpp
extern const Kind kAccessAdd, kAccessRevoke;                                // kinds/access.cpp
extern const Kind kOperationUndo, kHistoryJoin;                             // kinds/history.cpp

const Kinds& known_kinds() {
  static const Kinds kinds({
      &kVersionCreate, &kVersionRenumber, &kVersionLost,   &kAliasMove,     &kTagCreate,
      &kTagDelete,     &kAttach,          &kRunStart,      &kRunCheckpoint, &kRunResume,
      &kRunEnd,        &kRunLog,          &kActorDescribe, &kActorForget,   &kDomainAssign,
      &kKeyErase,      &kAccessAdd,       &kAccessRevoke,  &kOperationUndo, &kHistoryJoin,
  });
  return kinds;
}

const Kind* Kinds::find(std::string_view name) const {
  const auto row = std::ranges::find(rows_, name, &Kind::name);
  return row == rows_.end() ? nullptr : *row;
}

const Kind& Kinds::at(std::string_view name) const {
  if (const Kind* const row = find(name)) return *row;
  throw Error(ErrorKind::kCorrupt, fmt::format("this mlx does not know operations of the kind '{}'", name),
              "it was written by a newer mlx: upgrade this one");
}

Kinds Kinds::with(const Kind& kind) const {
  std::vector<const Kind*> rows = rows_;
  rows.push_back(&kind);
  return Kinds(std::move(rows));
}

Right Kinds::right_of(const Operation& operation) const {
  return at(operation.kind).right(operation, parse_json(operation.body, "operation " + operation.id.brief()));
}

}  // namespace mlx::registry
