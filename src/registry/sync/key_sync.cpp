// A remote's keys are stored beside its heads, locked as they are here. They are exchanged before anything else, so
// that nothing is ever encrypted with a key that the remote's readers lack. First the remote's claims are verified: who
// signed its revisions, whether it has the one that mlx.toml pins, and whether it went back.
#include "registry/sync/key_sync.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "base/clock.h"
#include "base/error.h"
#include "base/path.h"
#include "base/text.h"
#include "registry/keys/keys.h"
#include "registry/operations/history.h"
#include "registry/sync/published_heads.h"
#include "registry/sync/seen_heads.h"
#include "registry/sync/seen_keys.h"
#include "registry/versions/domains.h"
#include "store/crypto/key_join.h"
#include "store/remote/encrypted_remote.h"

namespace mlx::registry {
namespace {

constexpr const char* kKeysFile = "keys";
constexpr int kTries = 3;

// A folder's path is relative to the root, so that mlx.toml means the same in every working folder.
std::string absolute_url(const std::string& root, const std::string& url) {
  return store::is_remote_path(url) ? absolute_path(join_path(root, url)) : url;
}

std::unique_ptr<store::Remote> open_plain(Repository& repository, const RemoteConfig& remote, bool create,
                                          bool repair = false) {
  store::RemoteOptions options;
  options.create = create;
  options.environment = repository.environment();
  options.cache_folder = join_path(repository.mlx_folder(), "cache/remotes");
  options.check_heads = [&kinds = repository.kinds(), repair](const store::Store& there, const auto& before,
                                                              const auto& heads) {
    repair ? check_published(there, before, heads, kinds) : check_pushed(there, before, heads, kinds);
  };
  options.repair = repair;
  options.interruption = &repository.interruption();
  try {
    return store::open_remote(absolute_url(repository.root(), remote.url), options, repository.disk(),
                              repository.pool());
  } catch (const Error& error) {
    const std::optional<Digest> seen =
        error.kind == ErrorKind::kNotFound ? seen_head(repository, remote) : std::nullopt;
    if (!seen) throw;
    throw Error(
        ErrorKind::kNotFound,
        fmt::format("'{}' went back to nothing: this clone has seen operation {} there; {}", remote.name, seen->brief(),
                    error.message),
        fmt::format("is its disk mounted? `mlx push {}` sends again what this clone has", shell_quoted(remote.name)));
  }
}

// Makes a remote only if the operations may be published.
std::unique_ptr<store::Remote> open_or_make(Repository& repository, const RemoteConfig& remote, Direction direction,
                                            const BeforeSending& before_sending) {
  const bool repair = direction == Direction::kRepair;
  if (before_sending) {
    try {
      return open_plain(repository, remote, false, repair);
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kNotFound) throw;
      before_sending({});
    }
  }
  return open_plain(repository, remote, true, repair);
}

std::string name_of_keys(const RemoteConfig& remote) {
  return fmt::format("keys of the remote '{}'", remote.name);
}

// The keys in both files that an operation has erased. A key that is merely zeroed in a file does not count as erased.
std::vector<std::uint32_t> erased_here(Repository& repository, const store::KeyFile& ours,
                                       const store::KeyFile& theirs) {
  std::vector<std::uint32_t> ids;
  for (const store::KeyFile* file : {&ours, &theirs}) {
    for (const store::DataKey& key : file->keys) {
      if (is_erased_key(repository, key.id, key.domain)) ids.push_back(key.id);
    }
  }
  return ids;
}

bool went_back(Repository& repository, const RemoteConfig& config, const store::Chain& chain) {
  const std::optional<Digest> seen = seen_keys(repository, config);
  return seen && store::find_link(chain, *seen) == nullptr;
}

Error gone_back(const store::KeyFile& lock, const std::string& what) {
  return Error(
      ErrorKind::kRefused,
      fmt::format("{}: it has revision {}, which lacks keys that this clone has seen there", what, lock.revision()),
      "somebody replaced the keys: check who can write to the remote; a clone that has the last keys restores them "
      "with `mlx push`, or with `mlx push --repair` if they diverged");
}

Error without_pinned(const store::KeyFile& file, const RemoteConfig& config) {
  return Error(
      ErrorKind::kRefused,
      fmt::format(
          "{}: revision {} of the ring {} lacks the revision that mlx.toml pins, {}: an older state, or other keys",
          name_of_keys(config), file.revision(), store::fingerprint(file.chain.front()), config.keys),
      "ask who pinned it; a clone that has it restores it with `mlx push`, or with `mlx push --repair` if they "
      "diverged");
}

bool holds_pinned(const store::KeyFile& file, const RemoteConfig& config) {
  return config.keys.empty() || store::find_fingerprint(file.chain, config.keys) != nullptr;
}

// Every check of a remote's keys that is possible without opening them. `ours` is empty on first contact.
void require_believable(Repository& repository, const RemoteConfig& config, const store::KeyFile& lock,
                        const store::KeyFile& ours) {
  const std::string what = name_of_keys(config);
  if (!ours.chain.empty() && ours.ring != lock.ring) {
    throw Error(ErrorKind::kConflict, fmt::format("{}: these are not this clone's keys", what),
                "a project's encrypted remotes share one set of keys; name an empty remote");
  }
  store::verify_chain(lock.chain, lock.ring, ours.chain, what);
  // This clone's keys are newer: they count, and will be at the remote after the next push.
  const bool older = !ours.chain.empty() && store::standing(ours.chain, lock.chain) == store::Standing::kNewer;
  const store::Chain& counts = older ? ours.chain : lock.chain;
  if (!config.keys.empty() && store::find_fingerprint(counts, config.keys) == nullptr) {
    throw without_pinned(lock, config);
  }
  if (!older && went_back(repository, config, lock.chain)) throw gone_back(lock, what);
}

// The result of merging a remote's keys with this clone's.
struct Settled {
  store::UnlockedKeys keys;
  bool news = false;  // the remote does not have them yet
};

Settled settle(Repository& repository, const store::SealedKeys& sealed, const std::string& what) {
  Keys& keys = repository.keys();
  destroy_erased_keys(repository);  // content that stays is stored under other keys before these are destroyed
  const store::KeyFile ours = keys.file();
  const store::Standing stands = store::standing(ours.chain, sealed.lock.chain);
  if (stands == store::Standing::kNewer) return {keys.unlocked(), true};  // new members may not open theirs
  const store::UnlockedKeys theirs = keys.unlock(sealed, what);
  const std::vector<std::uint32_t> erased = erased_here(repository, ours, theirs.file);
  store::UnlockedKeys settled = theirs;
  if (stands == store::Standing::kDiverged) {
    settled = store::join(keys.unlocked(), theirs, unix_micros());
    store::put_back(settled, theirs, erased);
  } else if (store::lacks_keys_of(theirs.file, ours, erased)) {
    store::put_back(settled, keys.unlocked(), erased);
  }
  store::erase_keys(settled.file, erased);
  const Bytes bytes = store::encode_key_file(settled.file);
  if (bytes != store::encode_key_file(ours)) keys.replace(settled);
  return {settled, bytes != store::encode_key_file(theirs.file)};
}

void take_first_keys(Repository& repository, const RemoteConfig& config, const store::SealedKeys& sealed) {
  const store::UnlockedKeys theirs = repository.keys().unlock(sealed, name_of_keys(config));
  repository.keys().create(theirs);
  destroy_erased_keys(repository);
  if (!config.keys.empty()) return;
  repository.keys().tell(
      fmt::format("first contact with the {}, {}: compare them with `mlx key list` in a clone that had them before",
                  name_of_keys(config), store::fingerprint(theirs.file.chain.front())));
}

void refuse_plain_objects(store::Remote& remote, const RemoteConfig& config) {
  if (remote.heads().empty() && remote.operations().empty()) return;
  throw Error(ErrorKind::kConflict,
              fmt::format("'{}' holds objects in clear and has no keys: it cannot become encrypted", config.name),
              "push to an empty remote; what is in clear there stays readable");
}

// A remote's heads, as operations of this clone.
struct ReadableHeads {
  std::vector<Digest> known;
  bool all_known = true;
};

ReadableHeads heads_there(Repository& repository, store::Remote& remote, const store::UnlockedKeys& keys) {
  ReadableHeads there;
  std::vector<Digest> heads;
  try {
    heads = remote.heads();
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) throw;  // lost heads; they can be derived from what clones know
  }
  const store::KeyRing ring = store::ring_of(keys);
  std::unordered_map<Digest, Digest, DigestHash> known;  // only those
  store::Statement select = repository.db().prepare("SELECT id FROM operations");
  while (!heads.empty() && select.step()) {
    const Digest id = select.digest(0);
    for (const store::DomainKey& key : ring.keys()) {
      if (key.domain != store::kHistoryDomain) continue;
      const Digest stored = store::storage_id(key, id);
      if (std::ranges::find(heads, stored) != heads.end()) known.emplace(stored, id);
    }
  }
  repository.store().reload();  // what others have recorded is in packs by now
  for (const Digest& head : heads) {
    const auto at = known.find(head);
    if (at != known.end()) there.known.push_back(at->second);
    there.all_known = there.all_known && at != known.end();
  }
  return there;
}

// A remote's key file, as it was read.
struct Read {
  std::optional<Bytes> bytes;
  std::optional<Error> damage;
};

Read read_keys(store::Remote& remote) {
  try {
    return {remote.read_file(kKeysFile), std::nullopt};
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) throw;
    return {std::nullopt, error};
  }
}

bool is_damage(const Error& error) {
  return error.kind == ErrorKind::kCorrupt || error.kind == ErrorKind::kRefused;
}

// One exchange of keys between this clone and one remote.
struct Exchange {
  Repository& repository;
  store::Remote& remote;
  const RemoteConfig& config;
  const Direction direction;
  const BeforeSending& before_sending;

  bool run();
  bool sends() const { return direction != Direction::kFetch; }
  // False if somebody else was faster. `told` is shown to the user, unless the exchange is refused.
  bool send(const std::optional<Bytes>& expected, const store::UnlockedKeys& keys, const std::string& told = {});
  std::optional<bool> without_keys();
  bool with_keys(const Bytes& bytes);
  bool put_ours_in_place(const std::optional<Bytes>& bytes, const Error& why);
};

bool Exchange::send(const std::optional<Bytes>& expected, const store::UnlockedKeys& keys, const std::string& told) {
  if (!holds_pinned(keys.file, config)) throw without_pinned(keys.file, config);
  if (before_sending) before_sending(heads_there(repository, remote, keys).known);
  if (!told.empty()) repository.keys().tell(told);
  if (!remote.write_file(kKeysFile, expected, store::seal_keys(keys))) return false;
  remember_keys(repository, config, keys.file.chain.back().id);
  return true;
}

// The remote has no key file. nullopt if somebody else has made one in the meantime.
std::optional<bool> Exchange::without_keys() {
  Keys& keys = repository.keys();
  const bool gone = keys.exist() && seen_keys(repository, config).has_value();
  if (!config.encrypt && !gone) {
    if (sends() && repository.store().encrypted()) {
      throw Error(ErrorKind::kRefused, fmt::format("this repository is encrypted, and '{}' is not", config.name),
                  fmt::format("mlx remote remove {0} && mlx remote add --encrypt {0} URL", shell_quoted(config.name)));
    }
    return false;
  }
  if (gone && !sends()) {
    throw Error(ErrorKind::kRefused, fmt::format("{}: they are gone, and were there before", name_of_keys(config)),
                fmt::format("`mlx push {}` sends this clone's keys", shell_quoted(config.name)));
  }
  std::string told;
  if (gone) {
    told = fmt::format("the {} were gone: this clone's keys are sent", name_of_keys(config));
  } else {
    refuse_plain_objects(remote, config);
    if (!sends()) return keys.exist();
  }
  if (send(std::nullopt, keys.unlocked(), told)) return true;
  return std::nullopt;
}

bool Exchange::put_ours_in_place(const std::optional<Bytes>& bytes, const Error& why) {
  Keys& keys = repository.keys();
  if (direction != Direction::kRepair || !keys.exist() || !is_damage(why)) throw why;
  return send(bytes, keys.unlocked(), fmt::format("{}; this clone's keys replace them", why.message));
}

bool Exchange::with_keys(const Bytes& bytes) {
  const std::string what = name_of_keys(config);
  Keys& keys = repository.keys();
  store::SealedKeys sealed;
  try {
    sealed = store::decode_sealed_keys(bytes, what);
    require_believable(repository, config, sealed.lock, keys.exist() ? keys.file() : store::KeyFile());
  } catch (const Error& error) {
    return put_ours_in_place(bytes, error);
  }
  const bool back = went_back(repository, config, sealed.lock.chain);
  if (back && !sends()) throw gone_back(sealed.lock, what);
  if (!keys.exist()) take_first_keys(repository, config, sealed);
  std::optional<Settled> settled;
  try {
    settled = settle(repository, sealed, what);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt) throw;
    return put_ours_in_place(bytes, error);
  }
  const store::KeyFile& file = settled->keys.file;
  // Never sends keys to a remote with operations that are unknown here: one of them may have erased a key.
  if (!sends() || !settled->news || !heads_there(repository, remote, settled->keys).all_known) {
    if (!back) remember_keys(repository, config, sealed.lock.chain.back().id);
    return true;
  }
  const std::string told = fmt::format("the {} went back to revision {}: this clone's revision {} is sent again", what,
                                       sealed.lock.revision(), file.revision());
  return send(bytes, settled->keys, back ? told : "");
}

// True if the remote has this clone's keys afterwards.
bool Exchange::run() {
  for (int tries = 0; tries < kTries; ++tries) {
    const Read read = read_keys(remote);
    if (read.damage) {
      if (put_ours_in_place(std::nullopt, *read.damage)) return true;
    } else if (read.bytes) {
      if (with_keys(*read.bytes)) return true;
    } else if (const std::optional<bool> done = without_keys()) {
      return *done;
    }
  }
  throw Error(ErrorKind::kConflict, fmt::format("{} change all the time", name_of_keys(config)), "try again");
}

// nullopt if the remote does not exist or has no keys.
std::optional<store::SealedKeys> believable_keys(Repository& repository, const RemoteConfig& config,
                                                 const std::function<void(const store::KeyFile&)>& require) {
  std::optional<Bytes> theirs;
  try {
    theirs = open_plain(repository, config, false)->read_file(kKeysFile);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound) throw;
  }
  if (!theirs) return std::nullopt;
  store::SealedKeys sealed = store::decode_sealed_keys(*theirs, name_of_keys(config));
  require(sealed.lock);
  return sealed;
}

}  // namespace

bool take_keys_of(Repository& repository, const RemoteConfig& config) {
  const bool known = repository.keys().exist();
  const auto sealed = believable_keys(repository, config, [&](const store::KeyFile& lock) {
    if (!known) require_believable(repository, config, lock, {});
  });
  if (!sealed || known) return sealed.has_value();
  take_first_keys(repository, config, *sealed);
  remember_keys(repository, config, sealed->lock.chain.back().id);
  return true;
}

bool mend_keys(Repository& repository, const RemoteConfig& config) {
  const auto sealed = believable_keys(
      repository, config, [&](const store::KeyFile& lock) { require_believable(repository, config, lock, {}); });
  if (!sealed) return false;
  repository.keys().replace(repository.keys().unlock(*sealed, name_of_keys(config)));
  destroy_erased_keys(repository);
  return true;
}

std::unique_ptr<store::Remote> open_remote(Repository& repository, const RemoteConfig& config, Direction direction,
                                           const BeforeSending& before_sending) {
  std::unique_ptr<store::Remote> remote = direction == Direction::kFetch
                                              ? open_plain(repository, config, false)
                                              : open_or_make(repository, config, direction, before_sending);
  if (!Exchange{repository, *remote, config, direction, before_sending}.run()) return remote;
  auto encrypted =
      std::make_unique<store::EncryptedRemote>(std::move(remote), repository.keys().ring(), repository.interruption());
  encrypted->expect_operations(recorded_operations(repository.db()));
  return encrypted;
}

}  // namespace mlx::registry
