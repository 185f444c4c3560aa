// Operations about operations: undoing one, joining histories that began separately.
#include "registry/operations/application.h"
#include "registry/operations/body.h"

namespace mlx::registry {
namespace {

// undone_operations() implements the effect; here only the body is checked.
void apply_operation_undo(const Application& a) {
  const Digest target = a.digest("operation");
  store::Statement select = a.db.prepare("SELECT kind, bytes FROM operations WHERE id = ?");
  if (!select.bind(target).step() || !a.follows(target)) a.corrupt("takes back an operation that is not before it");
  if (!same_maker(decode(select.blob(1)), a.operation)) a.corrupt("takes back what another actor made");
  if (a.kinds.at(select.text(0)).undo.never) a.corrupt("takes back what is never undone");
}

std::string operation_undo_text(const Body& body) {
  return "took back " + body.brief("operation");
}

// Its parents are all that it states.
void apply_history_join(const Application&) {}

std::string history_join_text(const Body&) {
  return "joined histories that had begun apart";
}

}  // namespace

extern const Kind kOperationUndo = {
    "operation.undo",        apply_operation_undo, operation_undo_text,   names({{Role::kTakenBack, "operation"}}),
    ContentDomain::kHistory, kCanBeUndone,         takes<Right::kCommit>,
};

extern const Kind kHistoryJoin = {
    "history.join",          apply_history_join, history_join_text,     names({{Role::kOther, "roots[]"}}),
    ContentDomain::kHistory, kNeverUndone,       takes<Right::kCommit>,
};

}  // namespace mlx::registry
