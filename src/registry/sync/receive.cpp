#include "registry/sync/receive.h"

#include <algorithm>

#include "base/path.h"
#include "base/text.h"
#include "registry/operations/history.h"
#include "registry/record/judge.h"
#include "registry/sync/claims.h"
#include "registry/sync/unrelated.h"
#include "store/remote/transfer.h"

namespace mlx::registry {

using store::ObjectKind;

namespace {

// Keeps only the list of ids, 32 bytes each, in memory.
void receive_unrecorded(store::Database& db, store::Remote& remote, store::Store& incoming, Progress& progress) {
  std::vector<Digest> ids = remote.operations();
  store::Statement recorded = db.prepare("SELECT 1 FROM operations WHERE id = ?");
  std::erase_if(ids, [&](const Digest& id) {
    const bool known = recorded.bind(id).step();
    recorded.reset();
    return known;
  });
  store::receive_operations(remote, incoming, ids, progress);
}

}  // namespace

Error pull_first(const RemoteConfig& remote) {
  return Error(ErrorKind::kConflict, fmt::format("'{}' has operations that this clone does not have", remote.name),
               "run `mlx pull` first");
}

OperationStage receive_operations(Repository& repository, store::Remote& remote, const std::vector<Digest>& heads,
                                  Progress& progress) {
  store::Database& db = repository.db();
  OperationStage received;
  repository.store().reload();  // another process's recent operations are in packs
  if (std::ranges::all_of(heads, [&](const Digest& head) { return is_recorded(db, head); })) {
    received.settle();
    return received;
  }
  const TempFolder folder;
  store::Store::create(folder.path(), repository.disk());
  store::Store incoming(folder.path(), repository.disk(), repository.pool(),
                        {.interruption = &repository.interruption()});
  receive_unrecorded(db, remote, incoming, progress);
  incoming.reload();
  for (std::vector<Digest> todo = heads; !todo.empty();) {
    const Digest id = todo.back();
    todo.pop_back();
    if (received.has(id) || is_recorded(db, id)) continue;
    if (!incoming.has(ObjectKind::kOperation, id))
      fail(ErrorKind::kCorrupt, "the remote's history is incomplete: it lacks operation {}", id.brief());
    const Operation operation = decode(incoming.read(ObjectKind::kOperation, id));
    received.add(operation);
    todo.insert(todo.end(), operation.parents.begin(), operation.parents.end());
  }
  received.settle();
  return received;
}

std::vector<Digest> readable_heads(store::Remote& remote) {
  try {
    return remote.heads();
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) throw;
    return {};
  }
}

HeadsThere judge_heads(Repository& repository, store::Remote& remote, const RemoteConfig& config,
                       const std::vector<Digest>& heads, bool repair, Progress& progress) {
  HeadsThere there;
  for (const Digest& head : heads) {
    if (is_recorded(repository.db(), head)) {
      there.known.push_back(head);
      continue;
    }
    if (!repair) throw pull_first(config);
    try {
      OperationStage received = receive_operations(repository, remote, {head}, progress);
      (void)require_vouched(repository, received);
      require_related(repository, config, received);
      require_true_claims(repository, received, remote, progress);
      repository.try_merge(received);
      there.kept.push_back(head);
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kRefused && error.kind != ErrorKind::kCorrupt) throw;
      progress.warn(fmt::format("left out of '{}': {}", config.name, error.message));
      there.left_out = true;
    }
  }
  if (!there.kept.empty() && !there.left_out) throw pull_first(config);
  return there;
}

Error with_way_round(const Error& error, const RemoteConfig& config) {
  if (error.kind != ErrorKind::kCorrupt || !error.hint.empty()) return error;
  return Error(
      error.kind, error.message,
      fmt::format("`mlx push --repair {}` leaves it out, from a clone that has the rest", shell_quoted(config.name)));
}

}  // namespace mlx::registry
