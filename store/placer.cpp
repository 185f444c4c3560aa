// Each file is made under a temporary name in the folder that is checked out, and renamed.
#include "store/placer.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/text.h"
#include "store/file_writer.h"
#include "store/walk.h"

namespace mlx::store {

namespace {

constexpr std::time_t kAbandonedSeconds = 600;  // since it was written to
constexpr int kLinkAttempts = 3;                // a cached file may be evicted before it is linked

// Takes away the empty folders that stand where a file must go.
void clear_folder(const std::string& path) {
  auto status = stat_link(path);
  if (!status || !S_ISDIR(status->st_mode)) return;
  for (const std::string& name : list_folder(path)) {
    const std::string inside = join_path(path, name);
    auto below = stat_link(inside);
    if (!below || !S_ISDIR(below->st_mode)) fail_folder_in_the_way(path);
    clear_folder(inside);
  }
  if (::rmdir(path.c_str()) != 0) fail_errno(errno, path, "remove folder");
}

bool reflink(const std::string& from, const std::string& to, std::uint32_t mode) {
  Fd source = open_file(from, O_RDONLY | O_NOFOLLOW);
  Fd target = open_file(to, O_WRONLY | O_CREAT | O_EXCL);  // not through Disk: FICLONE refuses files opened to append
  if (::ioctl(target.get(), FICLONE, source.get()) != 0) {
    int error = errno;
    ::unlink(to.c_str());
    if (error == EIO || error == ENOSPC || error == EDQUOT) fail_errno(error, to, "clone");
    return false;
  }
  if (mode == kModeExecutable && ::fchmod(target.get(), 0755) != 0) fail_errno(errno, to, "make executable");
  return true;
}

}  // namespace

void fail_folder_in_the_way(const std::string& path) {
  throw Error(ErrorKind::kConflict, fmt::format("{}: a folder with other files stands where a file must go", path),
              "move it away, then try again");
}

void remove_stale_checkouts(const std::string& folder, Disk& disk) {
  for (const std::string& name : list_folder(folder)) {
    if (!name.starts_with(kCheckoutTemporary)) continue;
    const std::string path = join_path(folder, name);
    const auto status = stat_link(path);
    const int process = std::atoi(name.c_str() + kCheckoutTemporary.size());
    const bool alive = process > 0 && (::kill(process, 0) == 0 || errno != ESRCH);
    // It may be a process of another host.
    if (status && !alive && status->st_mtime + kAbandonedSeconds < std::time(nullptr)) disk.remove(path);
  }
}

Placer::Placer(const Store& store, Disk& disk, const Target& target, LinkMode link, Progress& progress)
    : store_(store), disk_(disk), target_(target), link_(link), progress_(progress) {
  if (link != LinkMode::kCopy) cache_.emplace(store, disk);
}

void Placer::place(const Entry& entry, int number) {
  const std::string path = target_.path(entry), folder = parent_path(path);
  make_folders(folder);
  // In the dataset's own folder, so that a path as long as may be has room for it and those that are left by a process
  // that was killed are found again.
  const std::string temporary = join_path(target_.single ? folder : target_.folder,
                                          fmt::format("{}{}-{}", kCheckoutTemporary, ::getpid(), number));
  try {
    if (linked(entry, temporary)) {
      ++linked_;
    } else {
      write_entry(store_, disk_, entry, temporary, progress_);
      ++copied_;
    }
    clear_folder(path);
    disk_.rename(temporary, path);
    // rename() does nothing where both names are one file already.
    if (link_ == LinkMode::kHardlink) ::unlink(temporary.c_str());
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

CheckoutReport Placer::report() const {
  if (refused_ != 0) {
    progress_.warn(fmt::format("{} copied: {}", counted(copied_, "file"),
                               link_ == LinkMode::kReflink ? "this file system cannot clone files"
                                                           : "this place cannot be linked to the cache in .mlx"));
  }
  return {linked_, copied_};
}

// 0, or why the file system did not do it, as errno says it.
int Placer::link_once(const Entry& entry, const std::string& temporary) {
  NoProgress silent;  // a file that is copied after all counts once
  const std::string cached = cache_->obtain(entry, silent);
  if (link_ == LinkMode::kHardlink) return ::link(cached.c_str(), temporary.c_str()) == 0 ? 0 : errno;
  try {
    return reflink(cached, temporary, entry.mode) ? 0 : EOPNOTSUPP;
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kNotFound) return ENOENT;
    throw;
  }
}

// False where the file must be copied: links and empty files gain nothing, and not every file system can.
bool Placer::linked(const Entry& entry, const std::string& temporary) {
  if (!cache_ || refused_ != 0 || entry.mode == kModeLink || entry.size == 0) return false;
  for (int attempt = 0; attempt < kLinkAttempts; ++attempt) {
    switch (const int error = link_once(entry, temporary)) {
      case 0:
        progress_.advance(entry.size);
        return true;
      case ENOENT:
        continue;
      case EMLINK:  // this file has all the names that it can have
        return false;
      case EXDEV:
      case EPERM:
      case EACCES:
      case EOPNOTSUPP:
        refused_ = error;
        return false;
      default:
        fail_errno(error, temporary, "link");
    }
  }
  return false;
}

}  // namespace mlx::store
