// A cached file's nanoseconds are set to a number computed from its content. A change of the file changes its time, so
// no table is needed to notice it.
#include "store/worktree/file_cache.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "store/temporary.h"
#include "store/worktree/file_writer.h"
#include "store/worktree/walk.h"

namespace mlx::store {

namespace {

constexpr std::string_view kTemporary = "tmp-";
constexpr std::size_t kReadSize = std::size_t{1} << 20;
constexpr std::size_t kBootDigits = 16, kPartDigits = 2, kRestDigits = 62;

std::string cache_folder(const std::string& folder) {
  return join_path(folder, "cache/files");
}

// "ab/cdef…" below a boot's folder; ".x" if executable, since hard links share one mode.
std::string name_of(const Entry& entry) {
  const std::string hex = entry.content.hex();
  return fmt::format("{}/{}{}", hex.substr(0, 2), hex.substr(2), entry.mode == kModeExecutable ? ".x" : "");
}

mode_t mode_for(const Entry& entry) {
  return entry.mode == kModeExecutable ? 0555 : 0444;
}

long mark_of(const Digest& content) {
  std::uint32_t head = 0;
  for (std::size_t i = 0; i < 4; ++i) head = head << 8 | content.bytes[i];
  return static_cast<long>(head % 1'000'000'000);
}

void seal(const std::string& path, const Entry& entry) {
  if (::chmod(path.c_str(), mode_for(entry)) != 0) fail_errno(errno, path, "set mode");
  struct timespec now {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  // A second back, so that the mark is never in the future.
  const struct timespec times[2] = {{0, UTIME_OMIT}, {now.tv_sec - 1, mark_of(entry.content)}};
  if (::utimensat(AT_FDCWD, path.c_str(), times, 0) != 0) fail_errno(errno, path, "set time");
}

bool holds(const std::string& path, const Entry& entry, const Interruption& interruption) {
  // O_NONBLOCK: a named pipe would wait for its writer.
  Fd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  if (static_cast<std::uint64_t>(status.st_size) != entry.size) return false;
  Sha256 hash;
  Bytes buffer(kReadSize);
  std::uint64_t offset = 0;
  while (std::size_t count = read_at(fd.get(), buffer.data(), buffer.size(), offset, path)) {
    interruption.check();
    hash.update(ByteView(buffer).first(count));
    offset += count;
  }
  return offset == entry.size && hash.finish() == entry.content;
}

bool is_hex_of(std::string_view name, std::size_t digits) {
  return name.size() == digits && name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_cached_name(std::string_view name) {
  return is_hex_of(name.ends_with(".x") ? name.substr(0, name.size() - 2) : name, kRestDigits);
}

// The names of the folders in `path` that the cache made. A link in the place of one may lead anywhere, so that nothing
// is read, written or removed behind it.
std::vector<std::string> folders_in(const std::string& path, std::size_t digits) {
  std::vector<std::string> names;
  for (const FolderEntry& entry : list_entries(path))
    if (entry.is_real_folder && is_hex_of(entry.name, digits)) names.push_back(entry.name);
  return names;
}

void make_real_folder(Disk& disk, const std::string& store, const std::string& path) {
  if (!is_folder(path)) disk.sync_folder(store);  // a disk that refuses to write, as in others' clones, says so here
  make_folders(path);
  if (!is_real_folder(path)) fail(ErrorKind::kIo, "{}: a link in the cache of whole files, not a folder", path);
}

// Whether the process of "tmp-PID-N", of this boot, still runs.
bool is_being_written(const std::string& name) {
  long pid = 0;
  const char* begin = name.data() + kTemporary.size();
  std::from_chars(begin, name.data() + name.size(), pid);
  return pid > 0 && (::kill(static_cast<pid_t>(pid), 0) == 0 || errno != ESRCH);
}

}  // namespace

LinkMode parse_link_mode(const std::string& text) {
  if (text == "copy") return LinkMode::kCopy;
  if (text == "hardlink") return LinkMode::kHardlink;
  if (text == "reflink") return LinkMode::kReflink;
  throw Error(ErrorKind::kUsage, fmt::format("'{}' is no way to link files", text), "one of copy, hardlink, reflink");
}

FileCache::FileCache(const Store& store) : store_(store), disk_(store.disk()) {
  const std::string files = cache_folder(store.folder()), boot = boot_id();
  boot_known_ = boot.find_first_not_of('0') != std::string::npos;
  folder_ = join_path(files, boot);
  make_real_folder(disk_, store.folder(), folder_);
  for (const std::string& name : folders_in(files, kBootDigits)) {
    if (name != boot) earlier_.push_back(join_path(files, name));
  }
}

bool FileCache::is_good(const std::string& path, const Entry& entry) const {
  if (!boot_known_) return false;
  const auto status = stat_link(path);
  return status && S_ISREG(status->st_mode) && (status->st_mode & 07777) == mode_for(entry) &&
         static_cast<std::uint64_t>(status->st_size) == entry.size && status->st_mtim.tv_nsec == mark_of(entry.content);
}

bool FileCache::has(const Entry& entry) const {
  const std::string path = join_path(folder_, name_of(entry));
  return is_real_folder(parent_path(path)) && is_good(path, entry);
}

// Takes over a file of an earlier boot after reading it. If it has other content, removes it and returns false.
bool FileCache::adopt(const std::string& from, const std::string& to, const Entry& entry) {
  if (!is_real_folder(parent_path(from)) || !stat_link(from)) return false;
  if (!holds(from, entry, store_.interruption())) {
    disk_.remove(from);
    return false;
  }
  seal(from, entry);
  if (from != to) disk_.rename(from, to);
  return true;
}

void FileCache::make(const std::string& path, const Entry& entry, Progress& progress) {
  static std::atomic<std::uint64_t> count{0};
  const std::string temporary = join_path(folder_, fmt::format("{}{}-{}", kTemporary, ::getpid(), count++));
  try {
    write_entry(store_, disk_, entry, Beneath(folder_), base_name(temporary), progress);
    seal(temporary, entry);
    disk_.rename(temporary, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

std::string FileCache::obtain(const Entry& entry, Progress& progress) {
  const std::string name = name_of(entry), path = join_path(folder_, name);
  std::lock_guard lock(making_[entry.content.bytes[0] % making_.size()]);
  if (has(entry)) {
    progress.advance(entry.size);
    return path;
  }
  make_real_folder(disk_, store_.folder(), parent_path(path));
  bool found = adopt(path, path, entry);
  for (std::size_t i = 0; i < earlier_.size() && !found; ++i) found = adopt(join_path(earlier_[i], name), path, entry);
  if (found)
    progress.advance(entry.size);
  else
    make(path, entry, progress);
  return path;
}

CacheUse evict_files(const std::string& folder, Disk& disk, bool shared, bool dry_run,
                     const Interruption& interruption) {
  CacheUse freed;
  const std::string files = cache_folder(folder);
  if (!is_folder(files)) return freed;
  const auto evict = [&](const std::string& path) {
    const auto status = stat_link(path);
    if (!status || S_ISDIR(status->st_mode) || (status->st_nlink > 1 && !shared)) return;
    ++freed.files;
    freed.bytes += static_cast<std::uint64_t>(status->st_size);
    if (!dry_run) disk.remove(path);
  };
  const std::string boot = boot_id();
  for (const std::string& name : folders_in(files, kBootDigits)) {
    const std::string of_boot = join_path(files, name);
    const bool old = name != boot;
    for (const std::string& part : list_folder(of_boot))
      if (part.starts_with(kTemporary) && (old || !is_being_written(part))) evict(join_path(of_boot, part));
    for (const std::string& part : folders_in(of_boot, kPartDigits)) {
      const std::string path = join_path(of_boot, part);
      for (const std::string& file : list_folder(path)) {
        interruption.check();
        if (is_cached_name(file)) evict(join_path(path, file));
      }
      // This boot's folders stay: a checkout may be about to rename a file into one.
      if (old && !dry_run) ::rmdir(path.c_str());
    }
    if (old && !dry_run) ::rmdir(of_boot.c_str());
  }
  return freed;
}

}  // namespace mlx::store
