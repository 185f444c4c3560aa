// The keys of a remote stand beside its heads, locked as they are here; they are exchanged before anything else, so
// that nothing is ever encrypted with a key that the remote's readers have not got.
#include "registry/key_sync.h"

#include "base/error.h"
#include "base/path.h"
#include "registry/domains.h"
#include "registry/keys.h"
#include "store/encrypted_remote.h"

namespace mlx::registry {
namespace {

constexpr const char* kKeys = "keys";
constexpr int kTries = 3;

// A folder's path is relative to the root, so that mlx.toml means the same wherever mlx is called.
std::string absolute_url(const std::string& root, const std::string& url) {
  return store::is_remote_path(url) ? absolute_path(join_path(root, url)) : url;
}

std::unique_ptr<store::Remote> open_plain(Repository& repository, const RemoteConfig& remote, bool create) {
  store::RemoteOptions options;
  options.create = create;
  options.environment = repository.environment();
  options.cache_folder = join_path(repository.mlx_folder(), "cache/remotes");
  return store::open_remote(absolute_url(repository.root(), remote.url), options, repository.disk(), repository.pool());
}

std::string name_of_keys(const RemoteConfig& remote) {
  return fmt::format("keys of the remote '{}'", remote.name);
}

std::vector<std::uint32_t> erased_in(const store::KeyFile& file) {
  std::vector<std::uint32_t> ids;
  for (const store::DataKey& key : file.keys) {
    if (key.erased()) ids.push_back(key.id);
  }
  return ids;
}

void require_our_ring(const store::KeyFile& ours, const store::KeyFile& theirs, const std::string& what) {
  if (ours.ring == theirs.ring) return;
  throw Error(ErrorKind::kConflict, fmt::format("{}: they are not the keys of this clone", what),
              "a project's encrypted remotes share one set of keys; name an empty remote");
}

// What the remote's keys and ours come to, here and there. Erased keys stay erased: no other clone brings them back.
store::UnlockedKeys settle(Keys& keys, const store::UnlockedKeys& theirs, const std::string& what) {
  const store::UnlockedKeys ours = keys.unlocked();
  if (!store::vouches(ours, theirs)) {
    throw Error(ErrorKind::kCorrupt, fmt::format("{}: whoever changed them did not have the keys", what),
                "look at who can write to the remote; a clone that pushes its own keys again repairs them");
  }
  const store::Standing standing = store::standing(ours.file, theirs.file);
  if (standing == store::Standing::kSame || standing == store::Standing::kNewer) return ours;
  store::UnlockedKeys settled = standing == store::Standing::kOlder ? theirs : store::join(ours, theirs);
  store::erase_keys(settled.file, erased_in(ours.file));
  keys.replace(settled);
  return settled;
}

void take_first_keys(Repository& repository, const store::UnlockedKeys& theirs) {
  repository.keys().create(theirs);
  forget_erased(repository);
}

void refuse_plain_objects(store::Remote& remote, const RemoteConfig& config) {
  if (remote.heads().empty() && remote.operations().empty()) return;
  throw Error(ErrorKind::kConflict,
              fmt::format("'{}' holds objects in clear and has no keys: it can not become encrypted", config.name),
              "push to an empty remote; what stands in clear there stays readable");
}

// True where the remote has this clone's keys afterwards.
bool exchange_keys(Repository& repository, store::Remote& remote, const RemoteConfig& config, Towards towards) {
  const std::string what = name_of_keys(config);
  Keys& keys = repository.keys();
  for (int tries = 0; tries < kTries; ++tries) {
    const std::optional<Bytes> theirs = remote.read_file(kKeys);
    if (!theirs) {
      if (!config.encrypt) {
        if (towards == Towards::kRemote && repository.store().encrypted()) {
          throw Error(ErrorKind::kRefused, fmt::format("this repository is encrypted, and '{}' is not", config.name),
                      fmt::format("mlx remote remove {0} && mlx remote add --encrypt {0} URL", config.name));
        }
        return false;
      }
      refuse_plain_objects(remote, config);
      if (towards == Towards::kHere) return keys.exist();
      if (remote.write_file(kKeys, std::nullopt, store::seal_keys(keys.unlocked()))) return true;
      continue;
    }
    const store::SealedKeys sealed = store::decode_sealed_keys(*theirs, what);
    if (keys.exist()) require_our_ring(keys.file(), sealed.lock, what);
    const store::UnlockedKeys their_keys = keys.unlock(sealed, what);
    if (!keys.exist()) take_first_keys(repository, their_keys);
    store::UnlockedKeys settled = settle(keys, their_keys, what);
    store::erase_keys(settled.file, erased_in(their_keys.file));  // nor does this one put any back there
    const bool same = store::encode_key_file(settled.file) == store::encode_key_file(their_keys.file);
    if (towards == Towards::kHere || same || remote.write_file(kKeys, theirs, store::seal_keys(settled))) return true;
  }
  throw Error(ErrorKind::kConflict, fmt::format("{} change all the time", what), "try again");
}

}  // namespace

bool take_keys_of(Repository& repository, const RemoteConfig& config) {
  std::optional<Bytes> theirs;
  try {
    theirs = open_plain(repository, config, false)->read_file(kKeys);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound) throw;
  }
  if (!theirs) return false;
  const std::string what = name_of_keys(config);
  if (!repository.keys().exist())
    take_first_keys(repository, repository.keys().unlock(store::decode_sealed_keys(*theirs, what), what));
  return true;
}

std::unique_ptr<store::Remote> open_remote(Repository& repository, const RemoteConfig& config, Towards towards) {
  std::unique_ptr<store::Remote> remote = open_plain(repository, config, towards == Towards::kRemote);
  if (!exchange_keys(repository, *remote, config, towards)) return remote;
  auto encrypted = std::make_unique<store::EncryptedRemote>(std::move(remote), repository.keys().ring());
  std::vector<Digest> operations;
  for (const Operation& operation : repository.operations()) operations.push_back(operation.id);
  encrypted->expect_operations(operations);
  return encrypted;
}

}  // namespace mlx::registry
