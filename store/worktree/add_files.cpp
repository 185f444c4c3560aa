// Small files are read in one go by many threads; large ones one after the other, each by all threads.
#include "store/worktree/add_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/path.h"
#include "store/format/chunker.h"
#include "store/pack/batch.h"
#include "store/pack/blob_writer.h"

namespace mlx::store {

namespace {

// Larger files are cut and compressed by all cores one after the other; smaller ones go whole to one core each.
constexpr std::uint64_t kLargeFile = std::uint64_t{4} << 20;

struct stat status_of(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) fail_errno(errno, path, "stat");
  return status;
}

struct stat status_of_link(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) fail(ErrorKind::kNotFound, "{}: no such file", path);
    fail_errno(errno, path, "stat");
  }
  return status;
}

bool unchanged(const struct stat& a, const struct stat& b) {
  return a.st_size == b.st_size && a.st_ino == b.st_ino && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec && a.st_ctim.tv_sec == b.st_ctim.tv_sec &&
         a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

std::string link_target(const std::string& path) {
  std::string target(4096, '\0');
  ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  if (size < 0) fail_errno(errno, path, "read link");
  target.resize(static_cast<std::size_t>(size));
  return target;
}

Entry add_link(Batch& batch, const std::string& path, const std::string& stored_as) {
  std::string target = link_target(path);
  return {stored_as, kModeLink, target.size(), batch.add_blob(as_bytes(target), nullptr)};
}

Entry add_regular(Batch& batch, const std::string& path, const std::string& stored_as, Progress* progress) {
  for (int attempt = 0; attempt < kReadAttempts; ++attempt) {
    Fd fd = open_file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    struct stat before = status_of(fd.get(), path);
    if (!S_ISREG(before.st_mode)) continue;  // replaced since it was looked at
    std::uint64_t offset = 0;
    auto read = [&](void* data, std::size_t count) {
      std::size_t got = read_at(fd.get(), data, count, offset, path);
      offset += got;
      return got;
    };
    auto advance = [&](std::uint64_t bytes) {
      if (progress && attempt == 0) progress->advance(bytes);
    };
    auto size = static_cast<std::uint64_t>(before.st_size);
    const Digest* base = size > kTargetChunk ? batch.base_file(stored_as, size) : nullptr;
    BlobSummary blob = write_blob(batch, read, size, base, advance);
    struct stat after = status_of(fd.get(), path);
    if (!unchanged(before, after) || blob.size != static_cast<std::uint64_t>(after.st_size)) continue;
    std::uint32_t mode = (after.st_mode & S_IXUSR) != 0 ? kModeExecutable : kModeFile;
    return {stored_as, mode, blob.size, blob.id};
  }
  throw Error(ErrorKind::kConflict, fmt::format("{}: changed while it was read, {} times", path, kReadAttempts),
              "stop what writes to it, then try again");
}

Entry add_any(Batch& batch, const std::string& path, const std::string& stored_as, const struct stat& status,
              Progress* progress) {
  if (!is_safe_relative(stored_as)) fail(ErrorKind::kUsage, "{}: cannot be stored as '{}'", path, stored_as);
  if (S_ISLNK(status.st_mode)) return add_link(batch, path, stored_as);
  if (S_ISREG(status.st_mode)) return add_regular(batch, path, stored_as, progress);
  fail(ErrorKind::kUsage, "{}: neither a file nor a symbolic link: cannot be stored", path);
}

// Adds a file of at most one chunk whose key is still `walked`'s after reading it in one go. nullopt for any other
// file, which add_any then handles.
std::optional<Entry> add_small(Batch& batch, const std::string& path, const WalkedFile& walked) {
  if (walked.mode == kModeLink || walked.key.size > kTargetChunk) return {};
  thread_local Bytes buffer(kTargetChunk + 1);
  // Reading must not update the access time of every file; only the owner may ask for that.
  Fd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOATIME));
  if (!fd && errno == EPERM) fd = Fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) return {};
  ssize_t count = ::pread(fd.get(), buffer.data(), walked.key.size + 1, 0);
  if (count < 0 || static_cast<std::uint64_t>(count) != walked.key.size) return {};
  if (stat_key(status_of(fd.get(), path)) != walked.key) return {};
  ByteView content = ByteView(buffer).first(walked.key.size);
  Digest id = Digest::of(content);
  batch.put(ObjectKind::kChunk, id, content);
  return Entry{std::string(walked.path), walked.mode, walked.key.size, id};
}

// How many threads read small files: more than there are cores, since they wait for the disk in turn. But one thread if
// the user asked for one.
int reading_threads(int threads, std::size_t files) {
  constexpr int kMostReaders = 16;
  constexpr std::size_t kWorthAThread = 16;
  if (threads == 1 || files < kWorthAThread * static_cast<std::size_t>(threads)) return threads;
  return std::max(threads, std::min(4 * threads, kMostReaders));
}

// Small files go whole to one thread each; large ones one after the other, each to all threads.
void for_each_file(const std::vector<std::uint64_t>& sizes, Pool& pool, Progress& progress,
                   const std::function<void(std::size_t)>& add_one) {
  std::uint64_t total = 0;
  std::vector<std::size_t> small, large;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    total += sizes[i];
    (sizes[i] >= kLargeFile ? large : small).push_back(i);
  }
  progress.begin("Adding", total, "B");
  const int threads = reading_threads(pool.threads(), small.size());
  std::optional<Pool> readers;
  if (threads > pool.threads()) readers.emplace(threads);
  (readers ? *readers : pool).run(static_cast<std::int64_t>(small.size()), [&](std::int64_t i) {
    progress.check_interrupted();
    add_one(small[static_cast<std::size_t>(i)]);
  });
  for (std::size_t i : large) {
    progress.check_interrupted();
    add_one(i);
  }
  progress.end();
}

}  // namespace

Entry add_file(Batch& batch, const std::string& path, const std::string& stored_as) {
  return add_any(batch, path, stored_as, status_of_link(path), nullptr);
}

std::vector<Entry> add_files(Batch& batch, const std::vector<std::pair<std::string, std::string>>& path_and_stored_as,
                             Progress& progress) {
  const auto& files = path_and_stored_as;
  auto count = static_cast<std::int64_t>(files.size());
  std::vector<struct stat> status(files.size());
  batch.pool().run(count, [&](std::int64_t i) {
    status[static_cast<std::size_t>(i)] = status_of_link(files[static_cast<std::size_t>(i)].first);
  });
  std::vector<std::uint64_t> sizes(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (S_ISREG(status[i].st_mode)) sizes[i] = static_cast<std::uint64_t>(status[i].st_size);
  }
  std::vector<Entry> entries(files.size());
  for_each_file(sizes, batch.pool(), progress, [&](std::size_t i) {
    entries[i] = add_any(batch, files[i].first, files[i].second, status[i], &progress);
  });
  return entries;
}

std::vector<char> add_walked(Batch& batch, const Walk& walk, const std::string& folder,
                             const std::vector<std::size_t>& numbers, std::vector<Entry>& entries, Progress& progress) {
  std::vector<char> stood(numbers.size(), 0);
  std::vector<std::uint64_t> sizes;
  sizes.reserve(numbers.size());
  for (std::size_t number : numbers) sizes.push_back(walk.files[number].key.size);
  for_each_file(sizes, batch.pool(), progress, [&](std::size_t i) {
    const WalkedFile& walked = walk.files[numbers[i]];
    std::string path = walk.disk_path(folder, walked.path);
    if (auto entry = add_small(batch, path, walked)) {
      progress.advance(entry->size);
      entries[numbers[i]] = std::move(*entry);
      stood[i] = 1;
    } else {
      entries[numbers[i]] = add_any(batch, path, std::string(walked.path), status_of_link(path), &progress);
    }
  });
  return stood;
}

}  // namespace mlx::store
