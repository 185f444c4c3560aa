// A Disk that fails or "dies" at its Nth call, for the tests of crash safety.
#pragma once

#include <atomic>
#include <cerrno>
#include <memory>
#include <string>

#include "base/error.h"
#include "store/disk.h"

namespace mlx::store {

struct Killed {};  // not an mlx::Error, so that nothing catches it

class FaultDisk final : public Disk {
 public:
  enum class Fault {
    kFail,       // the Nth call fails as on a full disk; later ones work
    kBroken,     // the Nth call fails as on a broken disk (EIO); later ones work
    kFailAfter,  // the Nth and all later ones fail (a disk that stays full or has gone read-only)
    kDie,        // the process ends before the Nth call: it and all later ones throw Killed
    kTear,       // like kDie, but a write at N writes half of its bytes
  };
  FaultDisk(Fault fault, int at) : fault_(fault), at_(at) {}
  int calls() const { return calls_; }
  bool failed_in_remove() const { return failed_in_remove_; }

  Fd create(const std::string& path) override {
    step(path);
    return real_->create(path);
  }
  Fd open_append(const std::string& path) override {
    step(path);
    return real_->open_append(path);
  }
  void write(const Fd& fd, ByteView bytes, const std::string& path) override {
    bool here = ++calls_ == at_;
    if (here && fault_ == Fault::kTear) real_->write(fd, bytes.first(bytes.size() / 2), path);
    act(here, path);
    real_->write(fd, bytes, path);
  }
  void sync(const Fd& fd, const std::string& path) override { step(path); }  // these tests lose no power
  void sync_folder(const std::string& path) override { step(path); }
  void rename(const std::string& from, const std::string& to) override {
    step(to);
    real_->rename(from, to);
  }
  void truncate(const std::string& path, std::uint64_t size) override {
    step(path);
    real_->truncate(path, size);
  }
  void remove(const std::string& path) override {
    bool here = ++calls_ == at_;
    if (here) failed_in_remove_ = true;
    act(here, path);
    real_->remove(path);
  }

  void step(const std::string& path) override { act(++calls_ == at_, path); }

 private:
  void act(bool here, const std::string& path) {
    if (at_ == 0) return;
    bool later = calls_ > at_;
    if (fault_ == Fault::kFail && here) fail_errno(ENOSPC, path, "write");
    if (fault_ == Fault::kBroken && here) fail_errno(EIO, path, "write");
    if (fault_ == Fault::kFailAfter && (here || later)) fail_errno(ENOSPC, path, "write");
    if ((fault_ == Fault::kDie || fault_ == Fault::kTear) && (here || later)) throw Killed{};
  }
  std::unique_ptr<Disk> real_ = real_disk();
  Fault fault_;
  int at_;
  std::atomic<int> calls_{0};
  std::atomic<bool> failed_in_remove_{false};
};

// The real disk without syncing, which is slow and which tests do not need.
inline std::unique_ptr<Disk> unsynced_disk() {
  return std::make_unique<FaultDisk>(FaultDisk::Fault::kFail, 0);
}

}  // namespace mlx::store
