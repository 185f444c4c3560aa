// Folders are opened once, by a name in their open parent and never through links, and emptied through that descriptor.
#include "cmd/new_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/error.h"
#include "base/foreign_files.h"
#include "base/path.h"
#include "registry/operations/operation.h"

namespace mlx::cmd {
namespace {

constexpr std::string_view kMark = ".mark";
constexpr std::size_t kMaxMark = 256;

std::string mark_of(int folder) {
  struct stat found {};
  if (::fstat(folder, &found) != 0) return {};
  return fmt::format("folder {} {}\n", found.st_dev, found.st_ino);
}

// An empty folder, locked.
Fd make_staging(int parent, const std::string& name, const std::string& path) {
  if (::mkdirat(parent, name.c_str(), 0777) != 0) fail_errno(errno, path, "create the folder");
  Fd folder(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder || ::flock(folder.get(), LOCK_EX | LOCK_NB) != 0) fail_errno(errno, path, "lock the folder");
  const std::string mark = name + std::string(kMark);
  const Fd fd(::openat(parent, mark.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) fail_errno(errno, path + std::string(kMark), "create");
  write_all(fd.get(), as_bytes(mark_of(folder.get())), path + std::string(kMark));
  return folder;
}

bool bears_mark(int parent, const std::string& name, int folder) {
  struct stat found {};
  if (::fstat(folder, &found) != 0 || found.st_uid != ::geteuid()) return false;
  const std::string mark = name + std::string(kMark);
  const Fd fd(::openat(parent, mark.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  if (!fd || ::fstat(fd.get(), &found) != 0 || !S_ISREG(found.st_mode)) return false;
  std::string text(kMaxMark, '\0');
  text.resize(read_at(fd.get(), text.data(), text.size(), 0, mark));
  return text == mark_of(folder);
}

void remove_mark(int parent, const std::string& name) {
  (void)::unlinkat(parent, (name + std::string(kMark)).c_str(), 0);
}

// The mark is removed last: until then the next command finds what is left.
void remove_staging(int parent, int folder, const std::string& path) {
  remove_content(folder, path);
  (void)::unlinkat(parent, base_name(path).c_str(), AT_REMOVEDIR);
  remove_mark(parent, base_name(path));
}

// What commands that were killed have left beside `path`; one that lives is kConflict.
void remove_left_over(int parent, const std::string& path, const std::string& prefix, const std::string& command) {
  const std::string folder = parent_path(path);
  for (const FolderEntry& entry : list_entries(folder)) {
    if (!entry.is_real_folder || !entry.name.starts_with(prefix)) continue;
    const Fd found(::openat(parent, entry.name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!found || !bears_mark(parent, entry.name, found.get())) continue;
    if (::flock(found.get(), LOCK_EX | LOCK_NB) != 0) {
      throw Error(ErrorKind::kConflict, fmt::format("{}: another `mlx {}` is running there", path, command),
                  "wait for it to finish, or name another folder");
    }
    remove_staging(parent, found.get(), join_path(folder, entry.name));
  }
}

void require_empty(const std::string& path) {
  if (!path_exists(path) || (is_folder(path) && list_folder(path).empty())) return;
  throw Error(ErrorKind::kConflict, fmt::format("{}: exists and is not empty", path), "name another folder");
}

}  // namespace

NewFolder::NewFolder(std::string path, const std::string& command) : path_(std::move(path)) {
  require_empty(path_);
  const std::string parent = parent_path(path_), prefix = fmt::format(".{}.mlx-{}-", base_name(path_), command);
  make_folders(parent);
  parent_ = open_file(parent, O_RDONLY | O_DIRECTORY);
  remove_left_over(parent_.get(), path_, prefix, command);
  const std::string name = prefix + registry::random_id();
  made_ = join_path(parent, name);
  try {
    lock_ = make_staging(parent_.get(), name, made_);
  } catch (const Error&) {
    (void)::unlinkat(parent_.get(), name.c_str(), AT_REMOVEDIR);
    remove_mark(parent_.get(), name);
    throw;
  }
}

NewFolder::~NewFolder() {
  try {
    if (!kept_) remove_staging(parent_.get(), lock_.get(), made_);
  } catch (const Error&) {
    // The next command takes it away.
  }
}

void NewFolder::keep(const std::string& current_folder) {
  if (path_ != current_folder && ::rename(made_.c_str(), path_.c_str()) == 0) {
    kept_ = true;
    remove_mark(parent_.get(), base_name(made_));
    return;
  }
  if (!path_exists(path_)) fail_errno(errno, path_, "rename the new folder to");
  require_empty(path_);
  for (const std::string& name : list_folder(made_)) {
    if (::rename(join_path(made_, name).c_str(), join_path(path_, name).c_str()) != 0)
      fail_errno(errno, join_path(path_, name), "move the new folder to");
  }
}

void NewFolder::keep_file(const std::string& name) {
  if (::rename(join_path(made_, name).c_str(), path_.c_str()) != 0) fail_errno(errno, path_, "rename the new file to");
}

}  // namespace mlx::cmd
