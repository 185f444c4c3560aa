// Walks a folder level by level, the folders of a level in parallel.
#include "store/walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "store/ignore.h"

namespace mlx::store {

namespace {

struct Folder {
  std::string path;  // relative: "" or "a/b/"
  std::shared_ptr<const IgnoreRules> rules;
};

struct Found {
  std::vector<WalkedFile> files;
  std::vector<Folder> folders;
};

[[noreturn]] void fail_special(const std::string& path) {
  throw Error(ErrorKind::kUsage, fmt::format("{}: neither a file, a folder nor a symbolic link", path),
              "move it away, or leave it out with a line in .mlxignore");
}

// Names in a folder; kNotFound is not an error here where the folder has gone since it was found.
std::vector<std::string> names_in(int fd, const std::string& path) {
  DIR* stream = ::fdopendir(fd);
  if (!stream) {
    int error = errno;
    ::close(fd);
    fail_errno(error, path, "read folder");
  }
  std::vector<std::string> names;
  errno = 0;
  while (const dirent* entry = ::readdir(stream)) {
    std::string_view name = entry->d_name;
    if (name != "." && name != ".." && name != ".git" && name != ".mlx") names.emplace_back(name);
    errno = 0;
  }
  int error = errno;
  ::closedir(stream);
  if (error) fail_errno(error, path, "read folder");
  return names;
}

Found look_into(const std::string& root, Folder folder) {
  std::string path = folder.path.empty() ? root : join_path(root, folder.path.substr(0, folder.path.size() - 1));
  Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | (folder.path.empty() ? 0 : O_NOFOLLOW)));
  if (!fd) fail_errno(errno, path, "open folder");
  int copy = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0);
  if (copy < 0) fail_errno(errno, path, "open folder");
  std::vector<std::string> names = names_in(copy, path);
  if (std::find(names.begin(), names.end(), ".mlxignore") != names.end()) {
    auto rules = std::make_shared<IgnoreRules>();
    rules->above = folder.rules;
    rules->base = folder.path;
    rules->rules = parse_ignore(read_text(join_path(path, ".mlxignore")));
    folder.rules = std::move(rules);
  }
  Found found;
  for (const std::string& name : names) {
    struct stat status {};
    if (::fstatat(fd.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      if (errno == ENOENT) continue;  // gone since
      fail_errno(errno, join_path(path, name), "stat");
    }
    std::string relative = folder.path + name;
    bool is_directory = S_ISDIR(status.st_mode);
    if (folder.rules && is_ignored(folder.rules.get(), relative, is_directory)) continue;
    if (is_directory) {
      found.folders.push_back({relative + "/", folder.rules});
    } else if (S_ISREG(status.st_mode) || S_ISLNK(status.st_mode)) {
      found.files.push_back({std::move(relative), mode_of(status), stat_key(status)});
    } else {
      fail_special(join_path(path, name));
    }
  }
  return found;
}

std::int64_t nanos(const struct timespec& time) {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

StatKey stat_key(const struct stat& status) {
  return {static_cast<std::uint64_t>(status.st_dev), static_cast<std::uint64_t>(status.st_ino),
          static_cast<std::uint64_t>(status.st_size), nanos(status.st_mtim), nanos(status.st_ctim)};
}

std::optional<struct stat> stat_link(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) == 0) return status;
  if (errno == ENOENT || errno == ENOTDIR) return {};
  fail_errno(errno, path, "stat");
}

std::uint32_t mode_of(const struct stat& status) {
  if (S_ISLNK(status.st_mode)) return kModeLink;
  return (status.st_mode & S_IXUSR) != 0 ? kModeExecutable : kModeFile;
}

std::string Walk::disk_path(const std::string& folder, const std::string& path) const {
  return single ? folder : join_path(folder, path);
}

Walk walk(const std::string& folder, Pool& pool) {
  Walk result;
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) {
    auto link = stat_link(folder);
    if (!link) fail(ErrorKind::kNotFound, "{}: no such file or folder", folder);
    status = *link;
  }
  if (!S_ISDIR(status.st_mode)) {
    auto link = stat_link(folder);
    if (!link || (!S_ISREG(link->st_mode) && !S_ISLNK(link->st_mode))) fail_special(folder);
    result.single = true;
    result.files.push_back({base_name(folder), mode_of(*link), stat_key(*link)});
    return result;
  }
  std::vector<Folder> level{{"", nullptr}};
  while (!level.empty()) {
    std::vector<Found> found(level.size());
    pool.run(static_cast<std::int64_t>(level.size()), [&](std::int64_t i) {
      check_interrupted();
      found[static_cast<std::size_t>(i)] = look_into(folder, level[static_cast<std::size_t>(i)]);
    });
    level.clear();
    for (Found& part : found) {
      std::move(part.files.begin(), part.files.end(), std::back_inserter(result.files));
      std::move(part.folders.begin(), part.folders.end(), std::back_inserter(level));
    }
  }
  std::sort(result.files.begin(), result.files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return result;
}

}  // namespace mlx::store
