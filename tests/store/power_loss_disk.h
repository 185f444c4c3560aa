// A Disk that dies before its Nth call and then loses everything that was not synced, as in a power loss. For the tests
// of crash safety of store and registry. Single-threaded.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/path.h"
#include "fault_disk.h"

namespace mlx::store {

class PowerLossDisk final : public Disk {
 public:
  explicit PowerLossDisk(int at) : at_(at) {}
  int calls() const { return calls_; }

  Fd create(const std::string& path) override {
    step();
    Fd fd = real_->create(path);
    note_created(path);
    return fd;
  }
  Fd open_append(const std::string& path) override {
    step();
    const bool is_new = !path_exists(path);
    Fd fd = real_->open_append(path);
    if (is_new) note_created(path);
    watch(path);
    return fd;
  }
  void write(const Fd& fd, ByteView bytes, const std::string& path) override {
    step();
    real_->write(fd, bytes, path);
  }
  void sync(const Fd& fd, const std::string&) override {
    step();
    const auto file = files_.find(inode(fd.get()));
    if (file != files_.end()) file->second.synced = size_of(fd.get());
  }
  void sync_folder(const std::string& path) override {
    step();
    std::erase_if(names_, [&](const Name& name) { return name.folder == path; });
  }
  void rename(const std::string& from, const std::string& to) override {
    step();
    const std::string kept = keep(to);
    real_->rename(from, to);
    names_.push_back({parent_path(to), [=] {
                        ::rename(to.c_str(), from.c_str());
                        if (!kept.empty()) ::rename(kept.c_str(), to.c_str());
                      }});
  }
  void truncate(const std::string& path, std::uint64_t size) override {
    step();
    real_->truncate(path, size);
    for (auto& [number, file] : files_) {
      if (number == inode_at(path)) file.synced = std::min(file.synced, size);
    }
  }
  void remove(const std::string& path) override {
    step();
    const std::string kept = keep(path);
    real_->remove(path);
    if (!kept.empty()) names_.push_back({parent_path(path), [=] { ::rename(kept.c_str(), path.c_str()); }});
  }

  void step(const std::string&) override { step(); }

  // Loses the power. Unsynced contents are lost, even if their names stay. Names in unsynced folders are reset; with
  // `with_names` they stay, as if the folders had been synced.
  void lose(bool with_names) {
    for (const auto& [number, file] : files_) {
      if (size_of(file.fd.get()) <= file.synced) continue;
      if (::ftruncate(file.fd.get(), static_cast<off_t>(file.synced)) != 0) fail_errno(errno, "file", "truncate");
    }
    if (!with_names) {
      for (auto name = names_.rbegin(); name != names_.rend(); ++name) name->undo();
    }
  }

 private:
  struct File {
    Fd fd;
    std::uint64_t synced = 0;
  };
  struct Name {
    std::string folder;
    std::function<void()> undo;
  };

  void step() {
    if (++calls_ >= at_ && at_ > 0) throw Killed{};
  }
  static ino_t inode(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 ? status.st_ino : 0;
  }
  static std::uint64_t size_of(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
  }
  static ino_t inode_at(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
  }
  // The descriptor keeps the inode's number from being reused for another file.
  void watch(const std::string& path) {
    Fd fd = open_file(path, O_WRONLY);
    const ino_t number = inode(fd.get());
    const std::uint64_t size = size_of(fd.get());
    files_.try_emplace(number, File{std::move(fd), size});
  }
  void note_created(const std::string& path) {
    watch(path);
    names_.push_back({parent_path(path), [=] { ::unlink(path.c_str()); }});
  }
  // Links the file at `path` under a second name, outside of everything under test; "" if there is none.
  std::string keep(const std::string& path) {
    const std::string kept = join_path(kept_.path(), std::to_string(++kept_count_));
    return ::link(path.c_str(), kept.c_str()) == 0 ? kept : std::string();
  }

  const int at_;
  int calls_ = 0, kept_count_ = 0;
  std::unique_ptr<Disk> real_ = real_disk();
  std::map<ino_t, File> files_;
  std::vector<Name> names_;
  TempFolder kept_;
};

}  // namespace mlx::store
