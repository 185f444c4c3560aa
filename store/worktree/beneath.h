// A folder held open, and access to files below it by relative paths. No path leads out of it: no link, no "..". Every
// write into a worktree (data, pointers, mlx.toml, git's files) goes through here, because whoever made the project
// chose what stands in it.
//
// Paths are relative to the folder; "" is the folder itself if a folder is meant. A symbolic link on the way, or at the
// end, is kConflict and named. Thread-safe.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/fd.h"

namespace mlx::store {

class Beneath {
 public:
  // The folder itself may be reached through links: the user named it. kNotFound if it is absent.
  explicit Beneath(std::string root);
  // For messages and for reading: `path` with the folder's path in front.
  std::string full(const std::string& path) const;

  Fd open(const std::string& path, int flags, mode_t mode = 0666) const;  // kConflict if it exists and O_EXCL is set
  std::optional<struct stat> status(const std::string& path) const;       // lstat; nullopt if absent
  std::optional<std::string> read(const std::string& path) const;  // nullopt if absent; kConflict if it is not a file
  void make_folders(const std::string& path) const;
  // Under a temporary name, synced and renamed; the old file's mode stays.
  void replace(const std::string& path, std::string_view text, mode_t mode = 0666) const;
  void rename(const std::string& from, const std::string& to) const;
  void symlink(const std::string& target, const std::string& path) const;
  int hard_link(const std::string& existing, const std::string& path) const;  // `existing` is a full path; 0 or errno
  bool remove(const std::string& path) const;                                 // false if absent
  bool remove_folder(const std::string& path) const;                          // false if it is not empty, or none
  void remove_tree(const std::string& path) const;
  void discard(const std::string& path) const noexcept;  // remove() after an error, which is the one to report

 private:
  std::string checked(const std::string& path) const;
  Fd folder_of(const std::string& path) const;
  [[noreturn]] void refuse(int error, const std::string& path, const char* what) const;

  std::string root_;
  Fd folder_;
};

// Opens by walking from folder to folder: for kernels before 5.6, which have no openat2. Returns -1 and sets errno as
// openat2 does. `path` is safe (is_safe_relative).
int walk_beneath(int folder, const std::string& path, int flags, mode_t mode);

}  // namespace mlx::store
