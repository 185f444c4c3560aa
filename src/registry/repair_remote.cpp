// The operations that a remote holds give its heads: those that no other one of them names as its parent.
#include "registry/repair_remote.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "registry/key_sync.h"
#include "store/remote.h"

namespace mlx::registry {
namespace {

using DigestSet = std::unordered_set<Digest, DigestHash>;

bool has_heads(store::Remote& remote) {
  try {
    (void)remote.heads();
    return true;
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) throw;
    return false;
  }
}

}  // namespace

std::optional<MendedHeads> mend_heads(Repository& repository, const RemoteConfig& config,
                                      std::vector<std::string>& mended) {
  const auto remote = open_remote(repository, config, Towards::kRepair);
  mended = remote->mended();
  if (has_heads(*remote)) return std::nullopt;
  DigestSet there;
  try {
    const std::vector<Digest> held = remote->operations();
    there.insert(held.begin(), held.end());
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) throw;
    return std::nullopt;  // the list of its packs is lost too
  }
  std::vector<Operation> known = repository.operations();
  std::erase_if(known, [&](const Operation& operation) { return !there.contains(operation.id); });
  DigestSet parents;
  for (const Operation& operation : known) parents.insert(operation.parents.begin(), operation.parents.end());
  std::vector<Digest> heads;
  for (const Operation& operation : known) {
    if (!parents.contains(operation.id)) heads.push_back(operation.id);
  }
  if (!remote->publish_heads({}, heads)) {
    throw Error(ErrorKind::kConflict, fmt::format("'{}': someone else writes its heads", config.name),
                "run the command again");
  }
  return MendedHeads{known.size(), there.size() - known.size()};
}

}  // namespace mlx::registry
