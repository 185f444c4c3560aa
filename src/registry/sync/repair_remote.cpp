// A remote's heads can be derived from its operations: heads are those that no other operation names as its parent.
#include "registry/sync/repair_remote.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/path.h"
#include "base/text.h"
#include "registry/sync/key_sync.h"
#include "store/format/codec.h"
#include "store/remote/remote.h"
#include "store/remote/transfer.h"

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

// True if the remote's chunk list under a file's id, although different from this clone's, makes the file.
bool makes_file(Repository& repository, store::Remote& remote, const Digest& file, Progress& progress) {
  const TempFolder folder;
  store::Store::create(folder.path(), repository.disk());
  store::Store incoming(folder.path(), repository.disk(), repository.pool(),
                        {.interruption = &repository.interruption()});
  try {
    (void)store::receive_files(remote, incoming, {{file, std::nullopt}}, progress);
    return true;
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt && error.kind != ErrorKind::kNotFound) throw;
    return false;
  }
}

// What the remote holds under these keys, by key; without objects that cannot be decrypted.
std::unordered_map<store::ObjectKey, Bytes, store::ObjectKeyHash> read_there(store::Remote& remote,
                                                                             const std::vector<store::ObjectKey>& keys,
                                                                             const Interruption& interruption) {
  std::unordered_map<store::ObjectKey, Bytes, store::ObjectKeyHash> found;
  std::mutex mutex;
  NoProgress quiet(interruption);
  const auto take = [&](store::StoredObject&& object) {
    Bytes plain;
    try {
      store::Codec().decode_unidentified(store::record_of(object), object.stored, plain, "object of the remote");
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kCorrupt) throw;
      return;
    }
    std::lock_guard lock(mutex);
    found.emplace(object.key, std::move(plain));
  };
  const auto receive = [&](const std::vector<store::ObjectKey>& some) {
    try {
      remote.receive(some, take, quiet);
      return true;
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kCorrupt) throw;
      return false;
    }
  };
  if (receive(keys)) return found;
  for (const store::ObjectKey& key : keys) {
    if (!found.contains(key)) (void)receive({key});
  }
  return found;
}

bool is_poisoned(Repository& repository, store::Remote& remote, const store::ObjectKey& key, const Bytes& there,
                 Progress& progress) {
  if (key.kind != store::ObjectKind::kChunkList) return Digest::of(there) != key.id;
  return there != repository.store().read(key.kind, key.id) && !makes_file(repository, remote, key.id, progress);
}

}  // namespace

std::size_t drop_poisoned(Repository& repository, store::Remote& remote, const std::vector<store::ObjectRef>& objects,
                          store::RepairReport& report, Progress& progress) {
  constexpr std::size_t kAtOnce = 1024;
  std::vector<store::ObjectKey> keys, poisoned;
  for (const auto& [kind, id] : objects) {
    if (kind != store::ObjectKind::kChunk) keys.push_back({id, kind});
  }
  const std::vector<store::ObjectKey> absent = remote.missing(keys);
  std::unordered_set<store::ObjectKey, store::ObjectKeyHash> seen(absent.begin(), absent.end());
  std::erase_if(keys, [&](const store::ObjectKey& key) { return !seen.insert(key).second; });
  for (std::size_t at = 0; at < keys.size(); at += kAtOnce) {
    progress.check_interrupted();
    const auto begin = keys.begin() + static_cast<std::ptrdiff_t>(at);
    const std::vector<store::ObjectKey> some(begin,
                                             begin + static_cast<std::ptrdiff_t>(std::min(kAtOnce, keys.size() - at)));
    const auto there = read_there(remote, some, progress.interruption());
    for (const store::ObjectKey& key : some) {
      const auto found = there.find(key);
      if (found == there.end() || is_poisoned(repository, remote, key, found->second, progress))
        poisoned.push_back(key);
    }
  }
  if (poisoned.empty()) return 0;
  if (remote.drop(poisoned, report, progress)) return poisoned.size();
  progress.warn(
      fmt::format("the remote holds {} that do not match their ids, such as {}, and its server does not remove them",
                  counted(poisoned.size(), "object"), poisoned.front().id.brief()));
  return 0;
}

std::optional<MendedHeads> mend_heads(Repository& repository, const RemoteConfig& config,
                                      std::vector<std::string>& mended) {
  const auto remote = open_remote(repository, config, Direction::kRepair, judge_before_sending(repository));
  mended = remote->mended();
  if (has_heads(*remote)) return std::nullopt;
  DigestSet there;
  try {
    const std::vector<Digest> held = remote->operations();
    there.insert(held.begin(), held.end());
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) throw;
    return std::nullopt;  // the remote's list of packs is lost too
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
    throw Error(ErrorKind::kConflict, fmt::format("'{}': somebody else keeps changing its heads", config.name),
                "run the command again");
  }
  return MendedHeads{known.size(), there.size() - known.size()};
}

}  // namespace mlx::registry
