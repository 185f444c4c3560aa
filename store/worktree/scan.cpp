// Folders on disk as entries; the stat cache saves hashing files that have not changed.
#include "store/worktree/scan.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/text.h"
#include "store/format/chunker.h"
#include "store/worktree/add_files.h"

namespace mlx::store {

namespace {

constexpr std::size_t kHashStep = std::size_t{1} << 20;

Digest hash_link(const std::string& path) {
  std::string target(4096, '\0');
  ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
  if (size < 0) fail_errno(errno, path, "read link");
  return Digest::of(std::string_view(target).substr(0, static_cast<std::size_t>(size)));
}

// Hashes a file, and sets `file` to its state at that time.
Digest hash_file(const std::string& path, WalkedFile& file, Progress& progress) {
  if (file.mode == kModeLink) return hash_link(path);
  Bytes buffer(std::min<std::uint64_t>(kHashStep, file.key.size + 1));
  for (int attempt = 0; attempt < kReadAttempts; ++attempt) {
    Fd fd = open_file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    struct stat before {
    }, after{};
    if (::fstat(fd.get(), &before) != 0) fail_errno(errno, path, "stat");
    if (!S_ISREG(before.st_mode)) continue;
    Sha256 hash;
    std::uint64_t offset = 0;
    while (std::size_t count = read_at(fd.get(), buffer.data(), buffer.size(), offset, path)) {
      progress.check_interrupted();
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
  throw Error(ErrorKind::kConflict, fmt::format("{}: changed while it was read, {} times", path, kReadAttempts),
              "stop what writes to it, then try again");
}

std::vector<CachedFile> to_cached(const Walk& found, const std::vector<Entry>& entries) {
  std::vector<CachedFile> cached;
  cached.reserve(entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const WalkedFile& file = found.files[i];
    cached.push_back({file.path, file.mode, file.key, entries[i].content});
  }
  return cached;
}

// The files in a folder, and what the cache knows of them.
struct FolderState {
  FolderState(const std::string& folder, StatCache* cache, Pool& pool, const Interruption& interruption)
      : seen_at(wall_nanos()), known(cache) {
    Background loading;
    if (known) loading.post([&] { cached = known->load(folder); });
    found = walk(folder, pool, interruption);
    loading.wait();
    matches = match(found, cached);
  }
  bool knows(std::size_t file) const { return matches.cached[file] != Matches::kUnknown; }
  Entry entry(std::size_t file, const Digest& content) const {
    const WalkedFile& walked = found.files[file];
    return {std::string(walked.path), walked.mode, walked.key.size, content};
  }
  Entry known_entry(std::size_t file) const { return entry(file, cached.file(matches.cached[file]).content); }

  // Taken before the keys are read: an earlier time makes more files racy, never fewer.
  std::int64_t seen_at;
  Walk found;
  StatCache* known;
  CachedFiles cached;
  Matches matches;
};

// The manifest of a folder that holds only a file of its own name is that of the file: checkout could not tell them
// apart.
void require_shape(const Walk& found, const std::string& folder) {
  if (found.files.empty()) {
    throw Error(ErrorKind::kUsage, fmt::format("{} is empty: there is nothing to add", folder),
                "put files into it first");
  }
  if (!found.single && found.files.size() == 1 && found.files[0].path == base_name(folder)) {
    throw Error(ErrorKind::kUsage, fmt::format("{} holds only a file of the same name", folder),
                fmt::format("add that file: `mlx add {}`", shell_quoted(join_path(folder, found.files[0].path))));
  }
}

// The content of each file that the cache does not know; zero for the others.
struct Hashed {
  std::vector<Digest> contents;
  std::size_t files = 0;
  std::uint64_t bytes = 0;
};

Hashed hash_unknown(FolderState& look, const std::string& folder, Pool& pool, Progress& progress) {
  std::vector<WalkedFile>& files = look.found.files;
  Hashed hashed{std::vector<Digest>(files.size()), 0, 0};
  std::vector<std::size_t> unknown;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (look.knows(i)) continue;
    unknown.push_back(i);
    hashed.bytes += files[i].key.size;
  }
  hashed.files = unknown.size();
  if (unknown.empty()) return hashed;
  progress.begin("Hashing", hashed.bytes, "B");
  pool.run(static_cast<std::int64_t>(unknown.size()), [&](std::int64_t n) {
    std::size_t i = unknown[static_cast<std::size_t>(n)];
    hashed.contents[i] = hash_file(look.found.disk_path(folder, files[i].path), files[i], progress);
  });
  progress.end();
  return hashed;
}

std::vector<Entry> list_entries(FolderState& look, const Hashed& hashed, const std::string& folder) {
  const std::size_t count = look.found.files.size();
  std::vector<Entry> entries;
  entries.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    entries.push_back(look.knows(i) ? look.known_entry(i) : look.entry(i, hashed.contents[i]));
  }
  if (look.known && !(look.matches.all && !look.cached.manifest().is_zero())) {
    look.known->save(folder, to_cached(look.found, entries), look.seen_at, summarize(entries).id);
  }
  return entries;
}

std::vector<Entry> scan(FolderState look, const std::string& folder, Pool& pool, Progress& progress) {
  const Hashed hashed = hash_unknown(look, folder, pool, progress);
  return list_entries(look, hashed, folder);
}

Entry entry_of(const CachedFile& file) {
  return {std::string(file.path), file.mode, file.key.size, file.content};
}

// compare() of the cached and the present files, without building lists of entries.
Difference compare(const FolderState& look, const Hashed& hashed) {
  const std::vector<WalkedFile>& files = look.found.files;
  Difference difference;
  std::size_t before = 0, now = 0;
  while (before < look.cached.size() || now < files.size()) {
    if (now < files.size() && look.matches.cached[now] == before && files[now].mode == look.cached.file(before).mode) {
      ++before, ++now;
      continue;
    }
    const CachedFile known = before < look.cached.size() ? look.cached.file(before) : CachedFile{};
    const int order = before == look.cached.size() ? 1 : now == files.size() ? -1 : known.path.compare(files[now].path);
    if (order < 0) {
      difference.removed.push_back(entry_of(known));
    } else {
      Entry after = look.entry(now, look.knows(now) ? known.content : hashed.contents[now]);
      if (order > 0)
        difference.added.push_back(std::move(after));
      else if (entry_of(known) != after)
        difference.changed.emplace_back(entry_of(known), std::move(after));
    }
    before += order <= 0;
    now += order >= 0;
  }
  return difference;
}

// Whether to save the state of a folder that differs from the version. The cache would then lose the version's own
// list, and the next comparison must read that from the store: worth it if hashing again would take longer.
bool worth_saving(const FolderState& look, const Hashed& hashed) {
  const std::size_t files = look.found.files.size();
  return 4 * hashed.files > files || hashed.bytes > 4096 * files;
}

}  // namespace

std::vector<Entry> scan(const std::string& folder, StatCache* cache, Pool& pool, Progress& progress) {
  return scan(FolderState(folder, cache, pool, progress.interruption()), folder, pool, progress);
}

ManifestSummary add_folder(Store& store, const std::string& folder, const Digest* before, StatCache* cache, Pool& pool,
                           Progress& progress) {
  store.keep_found();
  FolderState look(folder, cache, pool, progress.interruption());
  const std::vector<WalkedFile>& files = look.found.files;
  require_shape(look.found, folder);
  std::vector<Entry> entries(files.size());
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (look.knows(i)) {
      entries[i] = look.known_entry(i);
      if (store.has_whole_blob(entries[i].content)) continue;
    }
    missing.push_back(i);
  }
  auto batch = store.begin();
  bool any_chunked = std::ranges::any_of(missing, [&](std::size_t i) { return files[i].key.size > kTargetChunk; });
  if (before && any_chunked && store.has(ObjectKind::kManifest, *before)) batch->use_bases(store.entries(*before));
  std::vector<char> stood = add_walked(*batch, look.found, folder, missing, entries, progress);
  std::vector<CachedFile> seen = to_cached(look.found, entries);
  ManifestSummary summary = batch->add_manifest(std::move(entries));
  batch->commit();
  if (!look.known || (look.matches.all && missing.empty() && look.cached.manifest() == summary.id)) return summary;

  // A file whose key is unchanged had this content, since it was read in between.
  std::vector<char> same(files.size(), 1);
  pool.run(static_cast<std::int64_t>(missing.size()), [&](std::int64_t n) {
    if (stood[static_cast<std::size_t>(n)]) return;
    std::size_t i = missing[static_cast<std::size_t>(n)];
    auto now = stat_link(look.found.disk_path(folder, files[i].path));
    same[i] = now && stat_key(*now) == files[i].key;
  });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (same[i]) seen[kept++] = seen[i];
  }
  bool whole = kept == seen.size();
  seen.resize(kept);
  look.known->save(folder, std::move(seen), look.seen_at, whole ? summary.id : Digest());
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

std::optional<Difference> changes_since(const Digest& manifest, const Store& store, const std::string& folder,
                                        StatCache* cache, Pool& pool, Progress& progress) {
  FolderState look(folder, cache, pool, progress.interruption());
  if (look.cached.manifest() != manifest) {
    if (!store.has(ObjectKind::kManifest, manifest)) return {};
    return compare(store.entries(manifest), scan(std::move(look), folder, pool, progress));
  }
  if (look.matches.all) return Difference{};
  const Hashed hashed = hash_unknown(look, folder, pool, progress);
  Difference difference = compare(look, hashed);
  if (difference.empty() || worth_saving(look, hashed)) list_entries(look, hashed, folder);
  return difference;
}

}  // namespace mlx::store
