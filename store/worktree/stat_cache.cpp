// One row for each folder, with all its files in one blob, since scans read all of it.
#include "store/worktree/stat_cache.h"

#include <time.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/path.h"

namespace mlx::store {

namespace {

// Kernels stamp files from a clock that ticks every few milliseconds; some file systems round to one or two seconds.
constexpr std::int64_t kTick = 20'000'000;
constexpr std::int64_t kCoarseTick = 2'000'000'000;

// A table of another version is dropped: its content can be computed again.
constexpr int kSchema = 3;

constexpr int kPageSize = 65536;  // a folder of 100,000 files is a value of 10 MiB

// The blob: count, manifest, records of one size so that any can be read alone, then all paths in one piece.
constexpr std::size_t kHeader = 8 + 32;
constexpr std::size_t kRecord = 8 + 5 * 8 + 32 + 4;  // end of the path among the paths, key, content, mode

Bytes encode_files(const std::vector<CachedFile>& files, const Digest& manifest) {
  std::size_t paths = 0;
  for (const CachedFile& file : files) paths += file.path.size();
  ByteWriter out(kHeader + files.size() * kRecord + paths);
  out.u64(files.size());
  out.raw(manifest.bytes);
  std::uint64_t end = 0;
  for (const CachedFile& file : files) {
    out.u64(end += file.path.size());
    out.u64(file.key.device);
    out.u64(file.key.inode);
    out.u64(file.key.size);
    out.u64(static_cast<std::uint64_t>(file.key.modified));
    out.u64(static_cast<std::uint64_t>(file.key.changed));
    out.raw(file.content.bytes);
    out.u32(file.mode);
  }
  for (const CachedFile& file : files) out.raw(as_bytes(file.path));
  return out.take();
}

}  // namespace

StatCache::StatCache(const std::string& path) {
  root_ = parent_path(parent_path(absolute_path(path)));
  try {
    Database database(path, Database::Open::kCreate, Database::Sharing::kDetect, kPageSize);
    if (database.schema_version() != kSchema) {
      database.run(
          "BEGIN IMMEDIATE; DROP TABLE IF EXISTS folders; "
          "CREATE TABLE folders (path TEXT PRIMARY KEY, files BLOB NOT NULL); "
          "PRAGMA user_version = 3; COMMIT;");
    }
    // What a power loss destroys can be computed again.
    database.run("PRAGMA synchronous = OFF");
    database_.emplace(std::move(database));
  } catch (const Error& error) {
    log("stat cache is not used: {}", error.message);
  }
}

CachedFiles::CachedFiles(Bytes bytes) : bytes_(std::move(bytes)) {
  ByteReader in(bytes_, "stat cache");
  std::uint64_t count = in.u64();
  manifest_ = Digest::from(in.take(32));
  if (count > in.left() / kRecord) in.corrupt("too many files");
  in.take(count * kRecord);
  paths_ = ByteView(bytes_).subspan(in.offset());
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < count; ++i) {
    auto next = load_little_endian<std::uint64_t>(bytes_.data() + kHeader + i * kRecord);
    if (next < end || next > paths_.size()) in.corrupt("a path lies outside");
    end = next;
  }
  count_ = count;
}

CachedFile CachedFiles::file(std::size_t number) const {
  const std::uint8_t* at = bytes_.data() + kHeader + number * kRecord;
  std::uint64_t begin = number == 0 ? 0 : load_little_endian<std::uint64_t>(at - kRecord);
  CachedFile file;
  file.path = as_text(paths_).substr(begin, load_little_endian<std::uint64_t>(at) - begin);
  file.key.device = load_little_endian<std::uint64_t>(at + 8);
  file.key.inode = load_little_endian<std::uint64_t>(at + 16);
  file.key.size = load_little_endian<std::uint64_t>(at + 24);
  file.key.modified = static_cast<std::int64_t>(load_little_endian<std::uint64_t>(at + 32));
  file.key.changed = static_cast<std::int64_t>(load_little_endian<std::uint64_t>(at + 40));
  std::memcpy(file.content.bytes.data(), at + 48, 32);
  file.mode = load_little_endian<std::uint32_t>(at + 80);
  return file;
}

std::string StatCache::name_of(const std::string& folder) const {
  const std::string path = absolute_path(folder);
  return relative_inside(path, root_).value_or(path);
}

CachedFiles StatCache::load(const std::string& folder) {
  if (!database_) return {};
  try {
    Statement statement = database_->prepare("SELECT files FROM folders WHERE path = ?");
    statement.bind(name_of(folder));
    if (!statement.step()) return {};
    return CachedFiles(statement.blob(0));
  } catch (const Error& error) {
    log("stat cache is not used: {}", error.message);
    return {};
  }
}

void StatCache::save(const std::string& folder, std::vector<CachedFile> files, std::int64_t seen_at,
                     const Digest& manifest) {
  if (!database_) return;
  try {
    const bool whole = std::erase_if(files, [&](const CachedFile& file) { return is_racy(file.key, seen_at); }) == 0;
    Statement statement = database_->prepare("INSERT OR REPLACE INTO folders (path, files) VALUES (?, ?)");
    statement.bind(name_of(folder), encode_files(files, whole ? manifest : Digest())).run();
  } catch (const Error& error) {
    log("stat cache was not written: {}", error.message);
  }
}

bool is_racy(const StatKey& key, std::int64_t seen_at) {
  std::int64_t latest = std::max(key.modified, key.changed);
  std::int64_t tick = latest % 1'000'000'000 == 0 ? kCoarseTick : kTick;
  return latest > seen_at - tick;
}

std::int64_t wall_nanos() {
  struct timespec now {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

Matches match(const Walk& walk, const CachedFiles& cached) {
  Matches matches;
  matches.cached.assign(walk.files.size(), Matches::kUnknown);
  std::size_t same = 0;
  for (std::size_t i = 0, at = 0; i < walk.files.size() && at < cached.size();) {
    const WalkedFile& walked = walk.files[i];
    CachedFile known = cached.file(at);
    int order = known.path.compare(walked.path);
    if (order == 0 && known.key == walked.key) {
      matches.cached[i] = static_cast<std::uint32_t>(at);
      same += known.mode == walked.mode;
    }
    at += order <= 0;
    i += order >= 0;
  }
  matches.all = same == walk.files.size() && same == cached.size();
  return matches;
}

}  // namespace mlx::store
