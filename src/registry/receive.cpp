#include "registry/receive.h"

#include <algorithm>

#include "base/path.h"
#include "base/text.h"
#include "registry/claims.h"
#include "registry/history.h"
#include "registry/trust.h"
#include "registry/unrelated.h"
#include "store/transfer.h"

namespace mlx::registry {

using store::ObjectKind;
using store::ObjectRef;

Error pull_first(const RemoteConfig& remote) {
  return Error(ErrorKind::kConflict, fmt::format("'{}' has operations that this clone does not have", remote.name),
               "run `mlx pull` first");
}

std::vector<Operation> receive_operations(Repository& repository, store::Remote& remote,
                                          const std::vector<Digest>& heads, Progress& progress) {
  store::Database& db = repository.db();
  repository.store().reload();  // what another process has recorded meanwhile is in its packs
  if (std::ranges::all_of(heads, [&](const Digest& head) { return is_recorded(db, head); })) return {};
  const std::vector<Digest> recorded = recorded_operations(db);
  const DigestSet known(recorded.begin(), recorded.end());
  std::vector<ObjectRef> offered;
  for (const Digest& id : remote.operations()) {
    if (!known.contains(id)) offered.emplace_back(ObjectKind::kOperation, id);
  }
  const TempFolder folder;
  store::Store::create(folder.path(), repository.disk());
  store::Store incoming(folder.path(), repository.disk(), repository.pool());
  store::receive_objects(remote, incoming, offered, progress);
  incoming.reload();

  std::vector<Operation> received;
  DigestSet seen;
  for (std::vector<Digest> todo = heads; !todo.empty();) {
    const Digest id = todo.back();
    todo.pop_back();
    if (known.contains(id) || !seen.insert(id).second) continue;
    if (!incoming.has(ObjectKind::kOperation, id))
      fail(ErrorKind::kCorrupt, "the remote's history is not whole: it lacks operation {}", id.brief());
    received.push_back(decode(incoming.read(ObjectKind::kOperation, id)));
    todo.insert(todo.end(), received.back().parents.begin(), received.back().parents.end());
  }
  return fixed_order(std::move(received));
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
      const std::vector<Operation> received = receive_operations(repository, remote, {head}, progress);
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
