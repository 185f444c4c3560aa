// Each file is made under a temporary name in the folder that is checked out, and renamed, all below the folder that is
// held open.
#include "store/worktree/placer.h"

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
#include "store/worktree/file_writer.h"
#include "store/worktree/walk.h"

namespace mlx::store {

namespace {

constexpr std::time_t kAbandonedSeconds = 600;  // since it was written to
constexpr int kLinkAttempts = 3;                // a cached file may be evicted before it is linked

// Removes the empty folders at a path where a file must go.
void clear_folder(const Beneath& root, const std::string& path) {
  const auto status = root.status(path);
  if (!status || !S_ISDIR(status->st_mode)) return;
  for (const std::string& name : list_folder(root.full(path))) {
    const std::string inside = join_path(path, name);
    const auto below = root.status(inside);
    if (!below || !S_ISDIR(below->st_mode)) fail_folder_in_the_way(root.full(path));
    clear_folder(root, inside);
  }
  if (!root.remove_folder(path)) fail_folder_in_the_way(root.full(path));
}

bool reflink(const std::string& from, const Beneath& root, const std::string& to, std::uint32_t mode) {
  const Fd source = open_file(from, O_RDONLY | O_NOFOLLOW);
  const Fd target = root.open(to, O_WRONLY | O_CREAT | O_EXCL);  // FICLONE refuses files opened to append
  if (::ioctl(target.get(), FICLONE, source.get()) != 0) {
    const int error = errno;
    root.discard(to);
    if (error == EIO || error == ENOSPC || error == EDQUOT) fail_errno(error, root.full(to), "clone");
    return false;
  }
  if (mode == kModeExecutable && ::fchmod(target.get(), 0755) != 0) fail_errno(errno, root.full(to), "make executable");
  return true;
}

}  // namespace

void fail_folder_in_the_way(const std::string& path) {
  throw Error(ErrorKind::kConflict, fmt::format("{}: a folder with other files is where a file must go", path),
              "move it away, then try again");
}

void remove_stale_checkouts(const Place& place, Disk& disk) {
  const std::string& folder = place.target.folder;
  for (const std::string& name : list_folder(place.root.full(folder))) {
    if (!name.starts_with(kCheckoutTemporary)) continue;
    const std::string path = join_path(folder, name);
    const auto status = place.root.status(path);
    const int process = std::atoi(name.c_str() + kCheckoutTemporary.size());
    const bool alive = process > 0 && (::kill(process, 0) == 0 || errno != ESRCH);
    // It may be a process of another host.
    if (!status || alive || status->st_mtime + kAbandonedSeconds >= std::time(nullptr)) continue;
    disk.step(place.root.full(path));
    place.root.remove(path);
  }
}

Placer::Placer(const Store& store, Disk& disk, const Place& place, LinkMode link, Progress& progress)
    : store_(store), disk_(disk), place_(place), link_(link), progress_(progress) {
  if (link != LinkMode::kCopy) cache_.emplace(store);
}

void Placer::place(const Entry& entry, int number) {
  const Beneath& root = place_.root;
  const Target& target = place_.target;
  const std::string path = target.path(entry);
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "" : path.substr(0, slash);
  root.make_folders(folder);
  // In the dataset's own folder, so that the longest path has room for it, and files left by a killed process are
  // found.
  const std::string temporary =
      join_path(target.single ? folder : target.folder, fmt::format("{}{}-{}", kCheckoutTemporary, ::getpid(), number));
  try {
    if (linked(entry, temporary)) {
      ++linked_;
    } else {
      write_entry(store_, disk_, entry, root, temporary, progress_);
      ++copied_;
    }
    clear_folder(root, path);
    disk_.step(root.full(path));
    root.rename(temporary, path);
    // rename() does nothing if both names are one file already.
    if (link_ == LinkMode::kHardlink) root.remove(temporary);
  } catch (...) {
    root.discard(temporary);
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

// 0, or the errno of the link that failed.
int Placer::link_once(const Entry& entry, const std::string& temporary) {
  NoProgress silent(progress_.interruption());  // a file that is then copied counts once
  const std::string cached = cache_->obtain(entry, silent);
  if (link_ == LinkMode::kHardlink) return place_.root.hard_link(cached, temporary);
  try {
    return reflink(cached, place_.root, temporary, entry.mode) ? 0 : EOPNOTSUPP;
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kNotFound) return ENOENT;
    throw;
  }
}

// False if the file must be copied: symbolic links and empty files gain nothing, and not every file system can link.
bool Placer::linked(const Entry& entry, const std::string& temporary) {
  if (!cache_ || refused_ != 0 || entry.mode == kModeLink || entry.size == 0) return false;
  for (int attempt = 0; attempt < kLinkAttempts; ++attempt) {
    switch (const int error = link_once(entry, temporary)) {
      case 0:
        progress_.advance(entry.size);
        return true;
      case ENOENT:
        continue;
      case EMLINK:  // this file has as many names as it can have
        return false;
      case EXDEV:
      case EPERM:
      case EACCES:
      case EOPNOTSUPP:
        refused_ = error;
        return false;
      default:
        fail_errno(error, place_.root.full(temporary), "link");
    }
  }
  return false;
}

}  // namespace mlx::store
