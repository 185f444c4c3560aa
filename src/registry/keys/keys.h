// This clone's keys: .mlx/keys and its copy (mlx-format-keys(5)), unlocked when they are first needed, changed under a
// lock.
//
// Keys are what a Store asks for its ring, so reading what is not encrypted unlocks nothing. Domains that operations
// have erased are taken out of the file whenever it is opened.
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

// How a person shows that the keys are theirs. cmd/ implements it: files, commands, a terminal.
class Unlocker {
 public:
  virtual ~Unlocker() = default;
  virtual std::vector<store::KeyPair> identities() = 0;
  // nullopt where there is no way to ask. `what` names what is being unlocked.
  virtual std::optional<store::Secret> passphrase(const std::string& what) = 0;
  // What whoever unlocks keys has to know of them; a line, printed as it is.
  virtual void tell(const std::string&) {}
};

class Keys final : public store::KeySource {
 public:
  Keys(std::string path, store::Disk& disk) : path_(std::move(path)), disk_(disk) {}
  void set_unlocker(std::shared_ptr<Unlocker> unlocker) { unlocker_ = std::move(unlocker); }

  bool exist() const;
  store::KeyFile file() const;  // locked; kNotFound where this clone has no keys
  bool is_half() const;         // one of its two copies is missing, damaged or older, or it is of an earlier version
  bool mend();     // writes it again then, as whoever unlocks it does; false where it could not or need not
  bool damaged();  // as far as that is seen: with nobody to unlock them, less
  // kRefused where nobody can unlock them, kCorrupt where the file was changed by strangers.
  store::UnlockedKeys unlocked();
  // A file of elsewhere, with what unlocked ours where that is enough.
  store::UnlockedKeys unlock(const store::SealedKeys& sealed, const std::string& what);
  std::shared_ptr<const store::KeyRing> ring() override;
  void tell(const std::string& line) const;

  void create(const store::UnlockedKeys& keys);  // kConflict where there are some
  // Unlocks, changes and replaces the file, alone among processes.
  void change(const std::function<void(store::UnlockedKeys&)>& change);
  // Takes in what another clone has made of the file (key_sync.cpp).
  void replace(const store::UnlockedKeys& keys);
  // Takes these keys out for good, without unlocking anything; false where none was there.
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
  std::vector<store::KeyPair> known_;  // what has unlocked something in this process
};

}  // namespace mlx::registry
