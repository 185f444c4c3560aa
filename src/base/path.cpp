// Paths by text, and folders through the file system. Trees are removed by open folder, never by following a name
// twice.

#include "base/path.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <memory>

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"

namespace mlx {
namespace {

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

std::string_view without_trailing_slashes(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  return path;
}

Folder open_folder(const std::string& path) {
  Folder folder(::opendir(path.c_str()));
  if (folder) return folder;
  if (errno == ENOENT) fail(ErrorKind::kNotFound, "{}: no such folder", path);
  fail_errno(errno, path, "list");
}

// Owns `fd`, also if it throws.
Folder listing_of(int fd, const std::string& path) {
  Folder folder(::fdopendir(fd));
  if (folder) return folder;
  const int error = errno;
  ::close(fd);
  fail_errno(error, path, "list");
}

// Calls body(dirent) for each but "." and "..".
template <typename Body>
void for_each_in(DIR* folder, const std::string& path, Body body) {
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(folder);
    if (entry == nullptr) {
      if (errno != 0) fail_errno(errno, path, "list");
      return;
    }
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") body(*entry);
  }
}

std::vector<std::string> names_in(DIR* folder, const std::string& path) {
  std::vector<std::string> names;
  for_each_in(folder, path, [&](const dirent& entry) { names.emplace_back(entry.d_name); });
  return names;
}

// Opens the folder `name` below `parent`; one without permissions is given them first, since its content goes anyway.
int open_for_removal(int parent, const std::string& name) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  int fd = ::openat(parent, name.c_str(), kFlags);
  if (fd < 0 && errno == EACCES && ::fchmodat(parent, name.c_str(), 0700, 0) == 0) {
    fd = ::openat(parent, name.c_str(), kFlags);
  }
  return fd;
}

// Removes `name` in the open folder `parent`; `path` is its full name for errors.
void remove_at(int parent, const std::string& name, const std::string& path) {
  if (::unlinkat(parent, name.c_str(), 0) == 0 || errno == ENOENT) return;
  if (errno != EISDIR && errno != EPERM) fail_errno(errno, path, "remove");  // EPERM: POSIX's answer for a folder
  const int removal_error = errno;
  const int fd = open_for_removal(parent, name);
  if (fd < 0 && errno == ENOENT) return;
  if (fd < 0) fail_errno(errno == ENOTDIR ? removal_error : errno, path, "remove");
  const Folder folder = listing_of(fd, path);
  struct stat info {};
  if (::fstat(fd, &info) == 0 && (info.st_mode & 0700) != 0700) (void)::fchmod(fd, 0700);
  for (const std::string& child : names_in(folder.get(), path)) remove_at(fd, child, join_path(path, child));
  if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) fail_errno(errno, path, "remove");
}

}  // namespace

std::string join_path(std::string_view folder, std::string_view name) {
  if (folder.empty() || name.starts_with('/')) return std::string(name);
  if (name.empty()) return std::string(folder);
  std::string out(folder);
  if (out.back() != '/') out += '/';
  return out += name;
}

std::string parent_path(std::string_view path) {
  path = without_trailing_slashes(path);
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  if (slash == 0) return "/";
  return std::string(without_trailing_slashes(path.substr(0, slash)));
}

std::string base_name(std::string_view path) {
  path = without_trailing_slashes(path);
  if (path == "/") return "/";
  const std::size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

std::string absolute_path(std::string_view path) {
  std::string full(path);
  if (!path.starts_with('/')) {
    const std::unique_ptr<char, void (*)(void*)> current(::getcwd(nullptr, 0), std::free);
    if (!current) fail_errno(errno, ".", "find the current folder");
    full = join_path(current.get(), path);
  }
  std::string out;
  std::string_view rest = full;
  while (!rest.empty()) {
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    const std::string_view part = rest.substr(0, slash);
    rest.remove_prefix(std::min(slash + 1, rest.size()));
    if (part == "..") {
      out.erase(std::min(out.rfind('/'), out.size()));
    } else if (!part.empty() && part != ".") {
      out += '/';
      out += part;
    }
  }
  return out.empty() ? "/" : out;
}

std::optional<std::string> relative_inside(std::string_view path, std::string_view folder) {
  path = without_trailing_slashes(path);
  folder = without_trailing_slashes(folder);
  if (path == folder) return "";
  if (folder == "/" && path.starts_with('/')) return std::string(path.substr(1));
  if (path.size() <= folder.size() || !path.starts_with(folder) || path[folder.size()] != '/') return std::nullopt;
  return std::string(path.substr(folder.size() + 1));
}

bool is_safe_relative(std::string_view path) {
  if (path.empty() || path.find('\0') != std::string_view::npos) return false;
  for (;;) {
    const std::size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

bool is_private_name(std::string_view name) {
  // File systems of Windows drop dots and blanks from the end, and give long names a short one beside.
  while (name.size() > 4 && (name.back() == '.' || name.back() == ' ')) name.remove_suffix(1);
  if (name.size() < 4 || name.size() > 5) return false;
  const std::string folded = lower(name);
  return folded == ".git" || folded == ".mlx" || folded == "git~1" || folded == "mlx~1";
}

bool has_private_part(std::string_view path) {
  for (;;) {
    const std::size_t slash = path.find('/');
    if (is_private_name(path.substr(0, slash))) return true;
    if (slash == std::string_view::npos) return false;
    path.remove_prefix(slash + 1);
  }
}

bool path_exists(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

bool is_folder(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

bool is_real_folder(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::int64_t free_space(const std::string& path) {
  std::string there = path;
  while (!path_exists(there) && there != "/" && there != ".") there = parent_path(there);
  struct statvfs disk {};
  if (::statvfs(there.c_str(), &disk) != 0) return 0;
  return static_cast<std::int64_t>(disk.f_bavail) * static_cast<std::int64_t>(disk.f_frsize);
}

void make_folders(const std::string& path) {
  if (path.empty() || is_folder(path)) return;
  const std::string parent = parent_path(path);
  if (parent != path) make_folders(parent);
  if (::mkdir(path.c_str(), 0777) == 0) return;
  const int error = errno;
  if (error == EEXIST && is_folder(path)) return;  // another process was faster
  fail_errno(error == EEXIST ? ENOTDIR : error, path, "create the folder");
}

std::vector<std::string> list_folder(const std::string& path) {
  std::vector<std::string> names = names_in(open_folder(path).get(), path);
  std::ranges::sort(names);
  return names;
}

std::vector<FolderEntry> list_entries(const std::string& path) {
  std::vector<FolderEntry> entries;
  for_each_in(open_folder(path).get(), path, [&](const dirent& entry) {
    const bool folder =
        entry.d_type == DT_DIR || (entry.d_type == DT_UNKNOWN && is_real_folder(join_path(path, entry.d_name)));
    entries.push_back({entry.d_name, folder});
  });
  std::ranges::sort(entries, {}, &FolderEntry::name);
  return entries;
}

void remove_tree(const std::string& path) {
  remove_at(AT_FDCWD, std::string(without_trailing_slashes(path)), path);
}

void remove_content(int folder, const std::string& path, std::string_view kept) {
  const int fd = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_errno(errno, path, "list");
  const Folder listing = listing_of(fd, path);
  for (const std::string& name : names_in(listing.get(), path)) {
    if (name != kept) remove_at(fd, name, join_path(path, name));
  }
}

TempFolder::TempFolder(const Environment& environment) {
  const std::string base = absolute_path(environment.get("TMPDIR").value_or("/tmp"));
  path_ = join_path(base, "mlx-XXXXXX");
  if (::mkdtemp(path_.data()) == nullptr) fail_errno(errno, base, "create a temporary folder");
}

TempFolder::TempFolder() : TempFolder(process_environment()) {}

TempFolder::~TempFolder() {
  try {
    remove_tree(path_);
  } catch (const Error&) {
    // It stays in the folder for temporary files, which is no reason to end the program.
  }
}

}  // namespace mlx
