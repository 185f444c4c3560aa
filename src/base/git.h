// The project's git repository, read through libgit2 (the only file that includes it). Of the repository only its
// configuration is ever written. Another user's repository can be read, which runs none of its programs. Writing to it
// is kRefused, as in git, unless safe.directory names it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mlx {

struct GitState {
  std::string root;    // absolute path of the worktree
  std::string branch;  // "" when HEAD is detached or unborn
  std::string head;    // 40 hex digits, "" when unborn
  bool dirty = false;  // tracked files differ from HEAD
  std::string diff;    // the dirty diff as a patch, cut at 256 KiB
};

// The worktree that holds `folder`, or nullopt outside any repository. Cheap: opens nothing else.
std::optional<std::string> find_git_root(const std::string& folder);
std::optional<GitState> read_git_state(const std::string& folder, bool with_diff);
// When the commit at HEAD was made, unix microseconds; nullopt if HEAD is unborn.
std::optional<std::int64_t> git_head_time(const std::string& root);
// The folder of this repository's hooks (worktrees and core.hooksPath respected), for whoever writes one.
std::string git_hooks_folder(const std::string& root);
// The contents of `path` (relative to the root) at the tip of every local and remote branch and of HEAD, duplicates
// left out.
std::vector<std::string> git_blobs_on_branches(const std::string& root, const std::string& path);
// Every path matching the suffix (".mlx") on any branch tip, with its contents.
std::vector<std::pair<std::string, std::string>> git_files_with_suffix(const std::string& root,
                                                                       const std::string& suffix);
// The same in the tree of one commit (40 hex digits); files of more than `max_bytes` are left out. kNotFound if
// there is no such commit.
std::vector<std::pair<std::string, std::string>> git_files_in_commit(const std::string& root, const std::string& commit,
                                                                     const std::string& suffix, std::size_t max_bytes);
// The repository's configuration, with the user's behind it; "" if the key is not set. Writing changes the
// repository's own.
std::string git_config_text(const std::string& root, const std::string& key);
void git_set_config(const std::string& root, const std::string& key, const std::string& value);

// The same at the tip of every reference (branches, tags, stashes) and in the index of every worktree: everything that
// git can still restore by name. Files of more than `max_bytes` are left out.
std::vector<std::pair<std::string, std::string>> git_files_anywhere(const std::string& root, const std::string& suffix,
                                                                    std::size_t max_bytes);

struct GitFile {
  std::string path;   // relative to the root
  unsigned mode = 0;  // as git has it: 0100644, 0100755, 0120000 for a symbolic link
  std::string id;     // of the blob
  std::uint64_t size = 0;
  std::string text;  // its content if it is shorter than `max_text`
};
// The files of the commit at HEAD, sorted, with their contents if they have less than `max_text` bytes; submodules
// are left out. Empty if HEAD is unborn.
std::vector<GitFile> git_files_at_head(const std::string& root, std::uint64_t max_text);
// The first path that git tracks at `path` (relative to the root) or below it, whatever the case of its letters in the
// index; "" if it tracks none. Looks at the index and at HEAD.
std::string git_tracked_inside(const std::string& root, const std::string& path);
std::string git_blob_content(const std::string& root, const std::string& id);
// Where git-lfs keeps the objects of this repository: lfs.storage, or lfs in the git folder that all worktrees share.
std::string git_lfs_folder(const std::string& root);

}  // namespace mlx
