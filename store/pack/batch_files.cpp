// Adding what stands on disk and in memory: files and links with their modes, many at once, and manifests over them.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/foreign_files.h"
#include "base/path.h"
#include "store/pack/batch.h"
#include "store/pack/chunker.h"

namespace mlx::store {

namespace {

constexpr int kAttempts = 3;
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

Entry add_link(PackBatch& batch, const std::string& path, const std::string& stored_as) {
  std::string target = link_target(path);
  return {stored_as, kModeLink, target.size(), batch.add_blob(as_bytes(target), nullptr)};
}

Entry add_regular(PackBatch& batch, const std::string& path, const std::string& stored_as, Progress* progress) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
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
  throw Error(ErrorKind::kConflict, fmt::format("{}: changed while it was read, {} times", path, kAttempts),
              "stop what writes to it, then try again");
}

Entry add_any(PackBatch& batch, const std::string& path, const std::string& stored_as, const struct stat& status,
              Progress* progress) {
  if (!is_safe_relative(stored_as)) fail(ErrorKind::kUsage, "{}: cannot be stored as '{}'", path, stored_as);
  if (S_ISLNK(status.st_mode)) return add_link(batch, path, stored_as);
  if (S_ISREG(status.st_mode)) return add_regular(batch, path, stored_as, progress);
  fail(ErrorKind::kUsage, "{}: neither a file nor a symbolic link: cannot be stored", path);
}

// A file of at most one chunk, where it stands just as `walked` says: read in one go, and looked at once behind that.
// nullopt for anything else, which the long way then deals with.
std::optional<Entry> add_small(PackBatch& batch, const std::string& path, const WalkedFile& walked) {
  if (walked.mode == kModeLink || walked.key.size > kTargetChunk) return {};
  thread_local Bytes buffer(kTargetChunk + 1);
  // Reading shall not stamp a time on every file; only the owner may ask for that.
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

// How many threads take `files` small files: more than there are cores, since they wait for the disk in turn. A single
// thread is what somebody asked for.
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
    check_interrupted();
    add_one(small[static_cast<std::size_t>(i)]);
  });
  for (std::size_t i : large) {
    check_interrupted();
    add_one(i);
  }
  progress.end();
}

// kUsage where a path occurs twice or is a folder of another one.
void check_tree(const std::vector<Entry>& sorted) {
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (!is_safe_relative(sorted[i].path) || has_private_part(sorted[i].path))
      fail(ErrorKind::kUsage, "'{}': not a path that can be stored", sorted[i].path);
    if (is_too_long(sorted[i].path)) {
      fail(ErrorKind::kUsage, "'{}…': longer than 4095 bytes, or a part of it than 255", sorted[i].path.substr(0, 80));
    }
    if (i > 0 && sorted[i].path == sorted[i - 1].path) fail(ErrorKind::kUsage, "'{}': occurs twice", sorted[i].path);
  }
  if (auto clash = find_path_clash(sorted)) {
    fail(ErrorKind::kUsage, "'{}': is a file and also a folder of others", *clash);
  }
}

}  // namespace

Digest PackBatch::add_stream(const std::function<std::size_t(void*, std::size_t)>& read, std::uint64_t size_hint) {
  return write_blob(*this, read, size_hint, nullptr, [](std::uint64_t) {}).id;
}

Digest PackBatch::add_blob(ByteView bytes, const Digest* base) {
  std::size_t offset = 0;
  auto read = [&](void* data, std::size_t count) {
    count = std::min(count, bytes.size() - offset);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), count, static_cast<std::uint8_t*>(data));
    offset += count;
    return count;
  };
  return write_blob(*this, read, bytes.size(), base, [](std::uint64_t) {}).id;
}

Entry PackBatch::add_file(const std::string& path, const std::string& stored_as) {
  return add_any(*this, path, stored_as, status_of_link(path), nullptr);
}

void PackBatch::use_bases(const std::vector<Entry>& before) {
  for (const Entry& entry : before) {
    if (entry.size > kTargetChunk && entry.mode != kModeLink) bases_.emplace(entry.path, entry);
  }
}

const Digest* PackBatch::base_file(const std::string& stored_as, std::uint64_t size) const {
  if (auto found = bases_.find(stored_as); found != bases_.end()) return &found->second.content;
  std::string folder = stored_as.substr(0, stored_as.rfind('/') + 1);
  std::string ending = stored_as.substr(std::min(stored_as.size(), stored_as.rfind('.')));
  const Digest* last = nullptr;
  for (auto at = bases_.lower_bound(folder); at != bases_.end() && at->first.starts_with(folder); ++at) {
    const Entry& entry = at->second;
    bool beside = entry.path.find('/', folder.size()) == std::string::npos && entry.path.ends_with(ending);
    std::uint64_t apart = entry.size > size ? entry.size - size : size - entry.size;
    if (beside && apart <= size / 100) last = &entry.content;
  }
  return last;
}

std::vector<Entry> PackBatch::add_files(const std::vector<std::pair<std::string, std::string>>& path_and_stored_as,
                                        Progress& progress) {
  const auto& files = path_and_stored_as;
  auto count = static_cast<std::int64_t>(files.size());
  std::vector<struct stat> status(files.size());
  pool().run(count, [&](std::int64_t i) {
    status[static_cast<std::size_t>(i)] = status_of_link(files[static_cast<std::size_t>(i)].first);
  });
  std::vector<std::uint64_t> sizes(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (S_ISREG(status[i].st_mode)) sizes[i] = static_cast<std::uint64_t>(status[i].st_size);
  }
  std::vector<Entry> entries(files.size());
  for_each_file(sizes, pool(), progress, [&](std::size_t i) {
    entries[i] = add_any(*this, files[i].first, files[i].second, status[i], &progress);
  });
  return entries;
}

std::vector<char> PackBatch::add_walked(const Walk& walk, const std::string& folder,
                                        const std::vector<std::size_t>& numbers, std::vector<Entry>& entries,
                                        Progress& progress) {
  std::vector<char> stood(numbers.size(), 0);
  std::vector<std::uint64_t> sizes;
  sizes.reserve(numbers.size());
  for (std::size_t number : numbers) sizes.push_back(walk.files[number].key.size);
  for_each_file(sizes, pool(), progress, [&](std::size_t i) {
    const WalkedFile& walked = walk.files[numbers[i]];
    std::string path = walk.disk_path(folder, walked.path);
    if (auto entry = add_small(*this, path, walked)) {
      progress.advance(entry->size);
      entries[numbers[i]] = std::move(*entry);
      stood[i] = 1;
    } else {
      entries[numbers[i]] = add_any(*this, path, std::string(walked.path), status_of_link(path), &progress);
    }
  });
  return stood;
}

ManifestSummary PackBatch::add_manifest(std::vector<Entry> entries) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.path < b.path; });
  check_tree(entries);
  ManifestSummary summary;
  std::vector<ShardRef> shards;
  for (const std::span<const Entry> part : cut_shards(entries)) {
    ShardRef shard;
    shard.first_path = part.front().path;
    shard.files = part.size();
    for (const Entry& entry : part) shard.bytes += entry.size;
    shard.id = add(ObjectKind::kShard, encode_shard(part));
    summary.files += shard.files;
    summary.bytes += shard.bytes;
    shards.push_back(std::move(shard));
  }
  summary.id = add(ObjectKind::kManifest, encode_root(shards));
  return summary;
}

}  // namespace mlx::store
