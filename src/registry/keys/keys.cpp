// Reads, unlocks and replaces .mlx/keys and its copy. The old file is overwritten, because it may hold erased keys.
#include "registry/keys/keys.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/path.h"
#include "registry/operations/operation.h"

namespace mlx::registry {

bool Keys::exist() const {
  return path_exists(path_) || path_exists(store::copy_of(path_));
}

store::KeyFile Keys::decode(const store::SmallFile& found) const {
  if (!found.readable()) fail(ErrorKind::kCorrupt, "{}: is damaged, and so is its copy", path_);
  return store::decode_key_file(found.content, path_);
}

store::KeyFile Keys::file() const {
  if (!exist()) {
    throw Error(ErrorKind::kNotFound, fmt::format("{}: this clone has no keys", path_),
                "if it had keys, `mlx pull` takes them from an encrypted remote, or restore a backup of that file; "
                "`mlx init --encrypt` and `mlx remote add --encrypt NAME URL` make the first keys");
  }
  try {
    return decode(store::read_small_file(path_));
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt || !error.hint.empty()) throw;
    throw Error(
        error.kind, error.message,
        "`mlx fsck --repair` takes them from an encrypted remote; if none has them, restore a backup of that file");
  }
}

bool Keys::damaged() {
  if (!exist()) return false;
  try {
    (void)file();
    (void)ring();
  } catch (const Error& error) {
    return error.kind == ErrorKind::kCorrupt;
  }
  return false;
}

bool Keys::is_half() const {
  const auto state = store::read_small_file(path_).state;
  return state == store::SmallFile::State::kHalf || state == store::SmallFile::State::kUnchecked;
}

// Damage to both copies is reported by those who read them. A failure to write is ignored: the keys can still be read.
bool Keys::mend() {
  if (!is_half()) return false;
  try {
    const Fd held = lock();
    if (!is_half()) return false;  // another process has mended it
    write(decode(store::read_small_file(path_)));
    return true;
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kIo && error.kind != ErrorKind::kCorrupt) throw;
    log("{}: not mended: {}", path_, error.message);
    return false;
  }
}

void Keys::tell(const std::string& line) const {
  if (unlocker_) unlocker_->tell(line);
}

void Keys::remember(const store::UnlockedKeys& keys) {
  unlocked_ = keys;
  ring_ = std::make_shared<store::KeyRing>(store::ring_of(keys));
}

namespace {

// For a ring that this clone knows, the cost of a passphrase is read from its own file, never from the remote's, whose
// owner could set any cost.
std::optional<KeyPair> identity_in_own(const Keys& keys, const store::KeyFile& lock, ByteView passphrase) {
  try {
    const store::KeyFile own = keys.file();
    if (own.ring != lock.ring || own.chain.back().id == lock.chain.back().id) return {};
    return store::passphrase_identity(own, passphrase);
  } catch (const Error&) {
    return {};  // no keys, or damaged ones
  }
}

}  // namespace

// Finds credentials that prove membership, and keeps them for the next file.
store::Access Keys::find_access(const store::KeyFile& lock, const std::string& what) {
  for (const KeyPair& identity : known_) {
    if (auto access = store::unwrap_root(lock, identity)) return *access;
  }
  const std::vector<KeyPair> identities = unlocker_ ? unlocker_->identities() : std::vector<KeyPair>();
  for (const KeyPair& identity : identities) {
    auto access = store::unwrap_root(lock, identity);
    if (!access) continue;
    known_.push_back(identity);
    return *access;
  }
  const bool takes_passphrase =
      std::ranges::any_of(lock.members, [](const auto& m) { return m.kind == store::Member::Kind::kPassphrase; });
  const std::optional<Secret> passphrase = takes_passphrase && unlocker_ ? unlocker_->passphrase(what) : std::nullopt;
  if (!passphrase) {
    const char* const by_passphrase =
        "give the passphrase on a terminal, or in MLX_PASSPHRASE_FILE or MLX_PASSPHRASE_COMMAND";
    const std::string by_member =
        "send a member what `mlx key export-public` prints, for `mlx key add-recipient` and a push";
    if (!identities.empty()) {
      throw Error(ErrorKind::kRefused, fmt::format("{}: your identity is not a member", what),
                  takes_passphrase ? by_member + "; or " + by_passphrase : by_member);
    }
    throw Error(ErrorKind::kRefused, fmt::format("{}: encrypted, and no key is unlocked", what),
                takes_passphrase ? by_passphrase : "`mlx key new-identity` makes your key: " + by_member);
  }
  std::optional<KeyPair> identity = identity_in_own(*this, lock, *passphrase);
  std::optional<store::Access> access = identity ? store::unwrap_root(lock, *identity) : std::nullopt;
  if (!access && (identity = store::passphrase_identity(lock, *passphrase)))
    access = store::unwrap_root(lock, *identity);
  if (!access) {
    throw Error(ErrorKind::kRefused, fmt::format("{}: the passphrase is wrong", what),
                "`mlx key list` shows who can unlock the keys");
  }
  known_.push_back(*identity);
  return *access;
}

store::UnlockedKeys Keys::unlock(const store::SealedKeys& sealed, const std::string& what) {
  return store::open_sealed_keys(sealed, find_access(sealed.lock, what), what);
}

store::UnlockedKeys Keys::open_own() {
  store::KeyFile own = file();
  store::Access access = find_access(own, path_);
  return store::unlock(std::move(own), std::move(access), path_);
}

store::UnlockedKeys Keys::unlocked() {
  std::lock_guard lock(mutex_);
  if (!unlocked_) {
    mend();
    remember(open_own());
  }
  return *unlocked_;
}

std::shared_ptr<const store::KeyRing> Keys::ring() {
  std::lock_guard lock(mutex_);
  if (!ring_) {
    mend();
    remember(open_own());
  }
  return ring_;
}

// The lock is released when the descriptor is closed.
Fd Keys::lock() {
  const std::string path = path_ + ".lock";
  Fd fd = disk_.open_append(path);
  while (::flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) fail_errno(errno, path, "lock");
  }
  return fd;
}

// A process that died while writing may have left a file with keys that are erased now.
void Keys::shred_leftovers() {
  const std::string folder = parent_path(path_), prefix = base_name(path_) + ".";
  for (const std::string& name : list_folder(folder)) {
    if (!name.starts_with(prefix) || name == prefix + "lock" || name == prefix + "copy") continue;
    store::shred(disk_, join_path(folder, name));
  }
}

// Call with the lock held.
void Keys::write(const store::KeyFile& file) {
  shred_leftovers();
  store::write_small_file(disk_, path_, store::encode_key_file(file),
                          {.temporary = fmt::format("{}.{}", path_, random_id()), .mode = 0600, .shred = true});
}

void Keys::create(const store::UnlockedKeys& keys) {
  make_folders(parent_path(path_));
  const Fd held = lock();
  if (exist()) {
    throw Error(ErrorKind::kConflict, fmt::format("{}: this clone has keys already", path_),
                "`mlx key list` shows who can unlock them");
  }
  write(keys.file);
  std::lock_guard guard(mutex_);
  remember(keys);
}

void Keys::change(const std::function<void(store::UnlockedKeys&)>& change) {
  const Fd held = lock();
  std::lock_guard guard(mutex_);
  store::UnlockedKeys keys = open_own();
  change(keys);
  write(keys.file);
  remember(keys);
}

void Keys::replace(const store::UnlockedKeys& keys) {
  const Fd held = lock();
  write(keys.file);
  std::lock_guard guard(mutex_);
  remember(keys);
}

bool Keys::erase(const std::vector<std::uint32_t>& ids) {
  if (ids.empty() || !exist()) return false;
  const Fd held = lock();
  store::KeyFile kept = file();
  if (!store::erase_keys(kept, ids)) return false;
  write(kept);
  std::lock_guard guard(mutex_);
  unlocked_.reset();
  ring_.reset();
  return true;
}

}  // namespace mlx::registry
