// The stat cache: one row a folder with all its files in a blob, read and written as a whole, since scans want all of
// it.
#include <time.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/path.h"
#include "store/walk.h"

namespace mlx::store {

namespace {

// Kernels stamp files from a clock that moves every few milliseconds; some file systems keep whole seconds or two.
constexpr std::int64_t kTick = 20'000'000;
constexpr std::int64_t kCoarseTick = 2'000'000'000;

// A table of another shape is thrown away: what is in it can be computed again.
constexpr int kSchema = 1;

Bytes encode_files(const std::vector<CachedFile>& files) {
  ByteWriter out;
  out.varint(files.size());
  for (const CachedFile& file : files) {
    out.sized(as_bytes(file.path));
    out.u64(file.key.device);
    out.u64(file.key.inode);
    out.u64(file.key.size);
    out.u64(static_cast<std::uint64_t>(file.key.modified));
    out.u64(static_cast<std::uint64_t>(file.key.changed));
    out.raw(file.content.bytes);
  }
  return out.take();
}

std::vector<CachedFile> decode_files(ByteView bytes) {
  ByteReader in(bytes, "stat cache");
  std::uint64_t count = in.varint();
  if (count > in.left() / 73) in.corrupt("too many files");
  std::vector<CachedFile> files(count);
  for (CachedFile& file : files) {
    file.path = as_text(in.sized());
    file.key.device = in.u64();
    file.key.inode = in.u64();
    file.key.size = in.u64();
    file.key.modified = static_cast<std::int64_t>(in.u64());
    file.key.changed = static_cast<std::int64_t>(in.u64());
    file.content = Digest::from(in.take(32));
  }
  in.expect_end();
  return files;
}

}  // namespace

StatCache::StatCache(const std::string& path) : state_(std::make_unique<State>()) {
  try {
    Database database(path, Database::Open::kCreate);
    if (database.schema_version() != kSchema) {
      database.run(
          "BEGIN IMMEDIATE; DROP TABLE IF EXISTS folders; "
          "CREATE TABLE folders (path TEXT PRIMARY KEY, files BLOB NOT NULL) WITHOUT ROWID; "
          "PRAGMA user_version = 1; COMMIT;");
    }
    // What is lost with the power is computed again.
    database.run("PRAGMA synchronous = OFF");
    state_->database.emplace(std::move(database));
  } catch (const Error& error) {
    log("stat cache is not used: {}", error.message);
  }
}

StatCache::~StatCache() = default;

std::vector<CachedFile> StatCache::State::load(const std::string& folder) {
  if (!database) return {};
  try {
    Statement statement = database->prepare("SELECT files FROM folders WHERE path = ?");
    statement.bind(absolute_path(folder));
    if (!statement.step()) return {};
    return decode_files(statement.blob(0));
  } catch (const Error& error) {
    log("stat cache is not used: {}", error.message);
    return {};
  }
}

void StatCache::State::save(const std::string& folder, const std::vector<CachedFile>& files, std::int64_t seen_at) {
  if (!database) return;
  try {
    std::vector<CachedFile> kept;
    for (const CachedFile& file : files) {
      if (!is_racy(file.key, seen_at)) kept.push_back(file);
    }
    Statement statement = database->prepare("INSERT OR REPLACE INTO folders (path, files) VALUES (?, ?)");
    statement.bind(absolute_path(folder), encode_files(kept)).run();
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

std::vector<std::optional<Digest>> known_digests(const Walk& walk, const std::vector<CachedFile>& cached) {
  std::vector<std::optional<Digest>> known(walk.files.size());
  std::size_t at = 0;
  for (std::size_t i = 0; i < walk.files.size(); ++i) {
    while (at < cached.size() && cached[at].path < walk.files[i].path) ++at;
    if (at == cached.size()) break;
    if (cached[at].path == walk.files[i].path && cached[at].key == walk.files[i].key) known[i] = cached[at].content;
  }
  return known;
}

}  // namespace mlx::store
