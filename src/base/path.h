// Paths as byte strings: joining, normalising, existence, folders, temporary folders, and the check that a stored name
// stays inside its folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"

namespace mlx {

std::string join_path(std::string_view folder, std::string_view name);  // an absolute `name` wins
std::string parent_path(std::string_view path);                         // "." if there is none
std::string base_name(std::string_view path);
std::string absolute_path(std::string_view path);  // against the current folder; "." and ".." folded by text
// `path` (absolute) as seen from `folder` (absolute), or nullopt if it is not inside it. "" for the folder itself.
std::optional<std::string> relative_inside(std::string_view path, std::string_view folder);
// A relative path with no empty, "." or ".." part and no NUL: what manifests may hold.
bool is_safe_relative(std::string_view path);
// ".git" and ".mlx", also as a file system that ignores case would see them. These never hold a user's data.
bool is_private_name(std::string_view name);
bool has_private_part(std::string_view path);  // true if one of its parts is such a name

bool path_exists(const std::string& path);         // lstat
bool is_folder(const std::string& path);           // follows symbolic links
bool is_real_folder(const std::string& path);      // no symbolic link to one
void make_folders(const std::string& path);        // mkdir -p
std::int64_t free_space(const std::string& path);  // bytes on its disk, also before it exists; 0 if unknown
std::vector<std::string> list_folder(const std::string& path);  // names, sorted by bytes, without "." and ".."
// The same with each entry's type, which most file systems give with the name, without a stat.
struct FolderEntry {
  std::string name;
  bool is_real_folder = false;
};
std::vector<FolderEntry> list_entries(const std::string& path);
void remove_tree(const std::string& path);  // never follows symbolic links; an absent one is fine
// Removes everything in an open folder but `kept`; the folder itself stays. Never follows symbolic links. `path` is the
// folder's name in errors.
void remove_content(int folder, const std::string& path, std::string_view kept = {});

// A new folder below the environment's TMPDIR or /tmp; its tree is removed with the object.
class TempFolder {
 public:
  explicit TempFolder(const Environment& environment);
  TempFolder();  // for tests: below the process's own TMPDIR
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace mlx
