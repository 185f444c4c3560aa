// Reading, unlocking and replacing .mlx/keys. The file that is replaced is overwritten: it may hold what was erased.
#include "registry/keys.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "registry/random_id.h"

namespace mlx::registry {

bool Keys::exist() const {
  return path_exists(path_);
}

store::KeyFile Keys::file() const {
  if (!exist()) {
    throw Error(
        ErrorKind::kNotFound, fmt::format("{}: this clone has no keys", path_),
        "where it had some, `mlx pull` takes them from its encrypted remote; `mlx init --encrypt` and `mlx remote "
        "add --encrypt NAME URL` make the first ones");
  }
  try {
    return store::decode_key_file(read_file(path_), path_);
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt || !error.hint.empty()) throw;
    throw Error(error.kind, error.message, "`mlx fsck --repair` takes the keys from an encrypted remote");
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

void Keys::tell(const std::string& line) const {
  if (unlocker_) unlocker_->tell(line);
}

void Keys::remember(const store::UnlockedKeys& keys) {
  unlocked_ = keys;
  ring_ = std::make_shared<store::KeyRing>(store::ring_of(keys));
}

namespace {

// Of a ring that this clone knows, its own file says what a passphrase costs, and not whoever holds the remote's.
std::optional<store::KeyPair> identity_in_own(const Keys& keys, const store::KeyFile& lock, ByteView passphrase) {
  try {
    const store::KeyFile own = keys.file();
    if (own.ring != lock.ring || own.chain.back().id == lock.chain.back().id) return {};
    return store::passphrase_identity(own, passphrase);
  } catch (const Error&) {
    return {};  // none, or damaged
  }
}

}  // namespace

// For whoever can be shown to be a member; what has shown it is kept for the next file.
store::Access Keys::find_access(const store::KeyFile& lock, const std::string& what) {
  for (const store::KeyPair& identity : known_) {
    if (auto access = store::unwrap_root(lock, identity)) return *access;
  }
  for (const store::KeyPair& identity : unlocker_ ? unlocker_->identities() : std::vector<store::KeyPair>()) {
    auto access = store::unwrap_root(lock, identity);
    if (!access) continue;
    known_.push_back(identity);
    return *access;
  }
  const bool takes_passphrase =
      std::ranges::any_of(lock.members, [](const auto& m) { return m.kind == store::Member::Kind::kPassphrase; });
  const std::optional<store::Secret> passphrase =
      takes_passphrase && unlocker_ ? unlocker_->passphrase(what) : std::nullopt;
  if (!passphrase) {
    throw Error(ErrorKind::kRefused, fmt::format("{}: encrypted, and no key is unlocked", what),
                takes_passphrase
                    ? "give the passphrase on a terminal, or in MLX_PASSPHRASE_FILE or MLX_PASSPHRASE_COMMAND"
                    : "a member has to `mlx key add-recipient` your key; `mlx key export-public` prints it");
  }
  std::optional<store::KeyPair> identity = identity_in_own(*this, lock, *passphrase);
  std::optional<store::Access> access = identity ? store::unwrap_root(lock, *identity) : std::nullopt;
  if (!access && (identity = store::passphrase_identity(lock, *passphrase)))
    access = store::unwrap_root(lock, *identity);
  if (!access) {
    throw Error(ErrorKind::kRefused, fmt::format("{}: the passphrase is wrong", what),
                "`mlx key list` says for whom the keys are locked");
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
  if (!unlocked_) remember(open_own());
  return *unlocked_;
}

std::shared_ptr<const store::KeyRing> Keys::ring() {
  std::lock_guard lock(mutex_);
  if (!ring_) remember(open_own());
  return ring_;
}

// Released when the descriptor is closed.
Fd Keys::lock() {
  const std::string path = path_ + ".lock";
  Fd fd = disk_.open_append(path);
  while (::flock(fd.get(), LOCK_EX) != 0) {
    if (errno != EINTR) fail_errno(errno, path, "lock");
  }
  return fd;
}

// What a process that died while it wrote has left may hold keys that are erased now.
void Keys::shred_leftovers() {
  const std::string folder = parent_path(path_), prefix = base_name(path_) + ".";
  for (const std::string& name : list_folder(folder)) {
    if (!name.starts_with(prefix) || name == prefix + "lock") continue;
    store::shred(disk_, join_path(folder, name));
  }
}

// Under the lock.
void Keys::write(const store::KeyFile& file) {
  shred_leftovers();
  const std::string temporary = fmt::format("{}.{}", path_, random_id());
  try {
    const Fd fd = disk_.create(temporary);
    if (::fchmod(fd.get(), 0600) != 0) fail_errno(errno, temporary, "change the mode of");
    disk_.write(fd, store::encode_key_file(file), temporary);
    disk_.sync(fd, temporary);
    store::replace_shredding(disk_, temporary, path_);
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
}

void Keys::create(const store::UnlockedKeys& keys) {
  make_folders(parent_path(path_));
  const Fd held = lock();
  if (exist()) {
    throw Error(ErrorKind::kConflict, fmt::format("{}: this clone has keys already", path_),
                "`mlx key list` says for whom they are locked");
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
