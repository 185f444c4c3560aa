// A folder held open and what stands below it, by relative paths that nothing leads out of: no link, no "..". Whatever
// is written into a worktree (data, pointers, mlx.toml, what git is told) goes through here, for whoever made the
// project chose what stands in it.
//
// Paths are relative to the folder; "" is the folder itself where a folder is meant. A symbolic link in the place of a
// folder on the way, or of what is opened, is kConflict and named. Thread-safe.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/fd.h"

namespace mlx::store {

class Beneath {
 public:
  // The folder itself may be reached through links: the user named it. kNotFound where it does not stand.
  explicit Beneath(std::string root);
  // For people and for reading: `path` with the folder's own in front.
  std::string full(const std::string& path) const;

  Fd open(const std::string& path, int flags, mode_t mode = 0666) const;  // kConflict where O_EXCL finds it
  std::optional<struct stat> status(const std::string& path) const;       // lstat; nullopt where nothing stands
  std::optional<std::string> read(const std::string& path) const;  // nullopt where nothing stands; kConflict: no file
  void make_folders(const std::string& path) const;
  // Under a temporary name, synced and renamed; the old file's mode stays.
  void replace(const std::string& path, std::string_view text, mode_t mode = 0666) const;
  void rename(const std::string& from, const std::string& to) const;
  void symlink(const std::string& target, const std::string& path) const;
  int hard_link(const std::string& existing, const std::string& path) const;  // `existing` is a full path; 0 or errno
  bool remove(const std::string& path) const;                                 // false where nothing stands
  bool remove_folder(const std::string& path) const;                          // false where it is not empty, or none
  void remove_tree(const std::string& path) const;
  void discard(const std::string& path) const noexcept;  // remove() after an error, which is what is told

 private:
  std::string checked(const std::string& path) const;
  Fd folder_of(const std::string& path) const;
  [[noreturn]] void refuse(int error, const std::string& path, const char* what) const;

  std::string root_;
  Fd folder_;
};

// The same file, found by walking from folder to folder: for kernels before 5.6, which have no openat2. -1 and errno
// as openat2 has them. `path` is safe (is_safe_relative).
int walk_beneath(int folder, const std::string& path, int flags, mode_t mode);

}  // namespace mlx::store
