// scan, add_folder and compare: folders on disk as entries, with the stat cache sparing what has not changed.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "store/walk.h"
#include "store/worktree.h"

namespace mlx::store {

namespace {

constexpr int kAttempts = 3;
constexpr std::size_t kReadSize = std::size_t{1} << 20;

Digest hash_link(const std::string& path) {
  std::string target(4096, '\0');
  ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  if (size < 0) fail_errno(errno, path, "read link");
  return Digest::of(std::string_view(target).substr(0, static_cast<std::size_t>(size)));
}

// Hashes a file and brings `file` up to what it was then.
Digest hash_file(const std::string& path, WalkedFile& file, Progress& progress) {
  if (file.mode == kModeLink) return hash_link(path);
  Bytes buffer(std::min<std::uint64_t>(kReadSize, file.key.size + 1));
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    Fd fd = open_file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    struct stat before {
    }, after{};
    if (::fstat(fd.get(), &before) != 0) fail_errno(errno, path, "stat");
    if (!S_ISREG(before.st_mode)) continue;
    Sha256 hash;
    std::uint64_t offset = 0;
    while (std::size_t count = read_at(fd.get(), buffer.data(), buffer.size(), offset, path)) {
      check_interrupted();
      hash.update(ByteView(buffer).first(count));
      offset += count;
      if (attempt == 0) progress.advance(count);
    }
    if (::fstat(fd.get(), &after) != 0) fail_errno(errno, path, "stat");
    if (stat_key(before) != stat_key(after) || offset != stat_key(after).size) continue;
    file.key = stat_key(after);
    file.mode = mode_of(after);
    return hash.finish();
  }
  throw Error(ErrorKind::kConflict, fmt::format("{}: changed while it was read, {} times", path, kAttempts),
              "stop what writes to it, then try again");
}

std::vector<CachedFile> to_cached(const std::vector<WalkedFile>& files, const std::vector<Entry>& entries) {
  std::vector<CachedFile> cached;
  cached.reserve(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) cached.push_back({files[i].path, files[i].key, entries[i].content});
  return cached;
}

}  // namespace

std::vector<Entry> scan(const std::string& folder, StatCache* cache, Pool& pool, Progress& progress) {
  std::int64_t seen_at = wall_nanos();
  Walk found = walk(folder, pool);
  StatCache::State* state = StatCacheAccess::state(cache);
  std::vector<CachedFile> cached;
  if (state) cached = state->load(folder);
  std::vector<std::optional<Digest>> known = known_digests(found, cached);

  std::vector<Entry> entries(found.files.size());
  std::vector<std::size_t> unknown;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < found.files.size(); ++i) {
    if (known[i]) continue;
    unknown.push_back(i);
    bytes += found.files[i].key.size;
  }
  if (!unknown.empty()) {
    progress.begin("Hashing", bytes, "B");
    pool.run(static_cast<std::int64_t>(unknown.size()), [&](std::int64_t n) {
      std::size_t i = unknown[static_cast<std::size_t>(n)];
      known[i] = hash_file(found.disk_path(folder, found.files[i].path), found.files[i], progress);
    });
    progress.end();
  }
  for (std::size_t i = 0; i < found.files.size(); ++i) {
    const WalkedFile& file = found.files[i];
    entries[i] = {file.path, file.mode, file.key.size, *known[i]};
  }
  // Keys were read before seen_at + the walk; taking the earlier moment calls more files racy, never fewer.
  if (state && (!unknown.empty() || cached.size() != found.files.size())) {
    state->save(folder, to_cached(found.files, entries), seen_at);
  }
  return entries;
}

ManifestSummary add_folder(Store& store, const std::string& folder, StatCache* cache, Pool& pool, Progress& progress) {
  std::int64_t seen_at = wall_nanos();
  Walk found = walk(folder, pool);
  StatCache::State* state = StatCacheAccess::state(cache);
  std::vector<CachedFile> cached;
  if (state) cached = state->load(folder);
  std::vector<std::optional<Digest>> known = known_digests(found, cached);

  std::vector<Entry> entries(found.files.size());
  std::vector<std::size_t> missing;
  std::vector<std::pair<std::string, std::string>> to_add;
  for (std::size_t i = 0; i < found.files.size(); ++i) {
    const WalkedFile& file = found.files[i];
    if (known[i] && store.has_whole_blob(*known[i])) {
      entries[i] = {file.path, file.mode, file.key.size, *known[i]};
      continue;
    }
    missing.push_back(i);
    to_add.emplace_back(found.disk_path(folder, file.path), file.path);
  }
  auto batch = store.begin();
  if (!to_add.empty()) {
    std::vector<Entry> added = batch->add_files(to_add, progress);
    for (std::size_t n = 0; n < missing.size(); ++n) entries[missing[n]] = std::move(added[n]);
  }
  ManifestSummary summary = batch->add_manifest(entries);
  batch->commit();
  if (!state || (missing.empty() && cached.size() == found.files.size())) return summary;

  // A file that stands as it was found had this content: it was read in between.
  std::vector<char> same(found.files.size(), 1);
  pool.run(static_cast<std::int64_t>(missing.size()), [&](std::int64_t n) {
    std::size_t i = missing[static_cast<std::size_t>(n)];
    auto now = stat_link(found.disk_path(folder, found.files[i].path));
    same[i] = now && stat_key(*now) == found.files[i].key;
  });
  std::vector<CachedFile> seen;
  for (std::size_t i = 0; i < found.files.size(); ++i) {
    if (same[i]) seen.push_back({found.files[i].path, found.files[i].key, entries[i].content});
  }
  state->save(folder, seen, seen_at);
  return summary;
}

Difference compare(const std::vector<Entry>& before, const std::vector<Entry>& after) {
  Difference difference;
  std::size_t i = 0;
  std::size_t j = 0;
  while (i < before.size() || j < after.size()) {
    int order = i == before.size() ? 1 : j == after.size() ? -1 : before[i].path.compare(after[j].path);
    if (order < 0) {
      difference.removed.push_back(before[i++]);
    } else if (order > 0) {
      difference.added.push_back(after[j++]);
    } else {
      if (before[i] != after[j]) difference.changed.emplace_back(before[i], after[j]);
      ++i, ++j;
    }
  }
  return difference;
}

}  // namespace mlx::store
