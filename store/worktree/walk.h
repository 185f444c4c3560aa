// The files below a folder with what stat says of them; no content is read. Used by scan, add_files and checkout.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/interruption.h"
#include "base/parallel.h"
#include "store/format/manifest.h"

namespace mlx::store {

// The prefix of a checkout's temporary files, which are not a user's data.
inline constexpr std::string_view kCheckoutTemporary = ".mlx-tmp-";

// Shows whether a file has changed since it was last read. Times are nanoseconds since 1970.
struct StatKey {
  std::uint64_t device = 0, inode = 0, size = 0;
  std::int64_t modified = 0, changed = 0;
  bool operator==(const StatKey&) const = default;
};
StatKey stat_key(const struct stat& status);
// lstat; nullopt if absent.
std::optional<struct stat> stat_link(const std::string& path);
std::uint32_t mode_of(const struct stat& status);  // kModeFile, kModeExecutable or kModeLink

inline constexpr int kReadAttempts = 3;  // of a file that changes while it is read

struct WalkedFile {
  std::string_view path;  // relative to the folder; points into the Walk
  std::uint32_t mode = kModeFile;
  StatKey key;
};

// Moved, never copied: files point into paths.
struct Walk {
  Walk() = default;
  Walk(Walk&&) = default;
  Walk& operator=(Walk&&) = default;
  bool single = false;            // the folder is a file itself: the only entry of `files`, by its base name
  std::vector<WalkedFile> files;  // sorted by path
  std::vector<std::vector<char>> paths;
  std::string disk_path(const std::string& folder, std::string_view path) const;
};
// kNotFound if there is no folder; kUsage for sockets, devices and fifos.
Walk walk(const std::string& folder, Pool& pool, const Interruption& interruption = Interruption::never());

}  // namespace mlx::store
