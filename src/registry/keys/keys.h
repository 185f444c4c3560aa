// This clone's keys: .mlx/keys and its copy (mlx-format-keys(5)). They are unlocked on first use, and changed under a
// lock.
//
// A Store asks for its key ring only when it needs one, so reading unencrypted data unlocks nothing. Domains that
// operations have erased are removed from the file whenever it is opened.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "store/crypto/key_changes.h"
#include "store/disk.h"
#include "store/small_file.h"

namespace mlx::registry {

// How a person unlocks the keys. cmd/ implements it with files, commands and a terminal.
class Unlocker {
 public:
  virtual ~Unlocker() = default;
  virtual std::vector<KeyPair> identities() = 0;
  // nullopt if there is no way to ask. `what` names what is being unlocked.
  virtual std::optional<Secret> passphrase(const std::string& what) = 0;
  // Prints one line, as it is, for the person who unlocks the keys.
  virtual void tell(const std::string&) {}
};

class Keys final : public store::KeySource {
 public:
  Keys(std::string path, store::Disk& disk) : path_(std::move(path)), disk_(disk) {}
  void set_unlocker(std::shared_ptr<Unlocker> unlocker) { unlocker_ = std::move(unlocker); }

  bool exist() const;
  store::KeyFile file() const;  // still locked; kNotFound if this clone has no keys
  bool is_half() const;         // a copy is missing, damaged, older, or of an earlier format
  bool mend();     // rewrites both copies if is_half(), as the unlocker does; false if it could not or need not
  bool damaged();  // as far as can be seen; less if nobody can unlock the keys
  // kRefused if nobody can unlock the keys, kCorrupt if a stranger changed the file.
  store::UnlockedKeys unlocked();
  // Unlocks a key file from elsewhere, with the credentials that unlocked ours if they suffice.
  store::UnlockedKeys unlock(const store::SealedKeys& sealed, const std::string& what);
  std::shared_ptr<const store::KeyRing> ring() override;
  void tell(const std::string& line) const;

  void create(const store::UnlockedKeys& keys);  // kConflict if the clone has keys already
  // Unlocks, changes and replaces the file, under an inter-process lock.
  void change(const std::function<void(store::UnlockedKeys&)>& change);
  // Replaces the file by another clone's newer state of it (key_sync.cpp).
  void replace(const store::UnlockedKeys& keys);
  // Removes these keys for good, without unlocking anything; false if none of them was there.
  bool erase(const std::vector<std::uint32_t>& ids);

 private:
  store::KeyFile decode(const store::SmallFile& found) const;
  store::Access find_access(const store::KeyFile& lock, const std::string& what);
  store::UnlockedKeys open_own();
  Fd lock();
  void shred_leftovers();
  void write(const store::KeyFile& file);
  void remember(const store::UnlockedKeys& keys);
  std::string path_;
  store::Disk& disk_;
  std::shared_ptr<Unlocker> unlocker_;
  std::mutex mutex_;
  std::optional<store::UnlockedKeys> unlocked_;
  std::shared_ptr<const store::KeyRing> ring_;
  std::vector<KeyPair> known_;  // key pairs that have unlocked something in this process
};

}  // namespace mlx::registry
