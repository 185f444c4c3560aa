// Writing a version out: what differs is found first, what would be lost stops it before anything is touched, then
// files are removed and written, each verified under a temporary name and renamed into place. Nothing is ever written
// through a symbolic link inside the folder.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <unordered_set>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "store/store_state.h"
#include "store/walk.h"
#include "store/worktree.h"

namespace mlx::store {

namespace {

constexpr std::size_t kCopySize = std::size_t{1} << 20;
constexpr std::size_t kLongestLink = 4096;

struct Target {
  std::string folder;
  bool single = false;  // the folder is the one file itself
  std::string path(const Entry& entry) const { return single ? folder : join_path(folder, entry.path); }
};

struct Plan {
  std::vector<Entry> remove;
  std::vector<Entry> write;
  std::vector<Entry> set_mode;  // content stands already
};

Plan plan_from(const Difference& difference) {
  Plan plan;
  plan.remove = difference.removed;
  plan.write = difference.added;
  for (const auto& [before, after] : difference.changed) {
    bool links = before.mode == kModeLink || after.mode == kModeLink;
    bool same = before.content == after.content && !links;
    (same ? plan.set_mode : plan.write).push_back(after);
  }
  return plan;
}

// Paths that stand in the way of a new file and that scan did not see (ignored ones, folders, links where folders must
// be).
std::vector<std::string> unseen_obstacles(const Target& target, const std::vector<Entry>& added,
                                          const std::unordered_set<std::string>& going) {
  std::vector<std::string> obstacles;
  std::unordered_set<std::string> looked_at;
  for (const Entry& entry : added) {
    if (target.single) {
      if (stat_link(target.folder)) obstacles.push_back(target.folder);
      continue;
    }
    for (std::size_t slash = entry.path.find('/'); slash != std::string::npos;
         slash = entry.path.find('/', slash + 1)) {
      std::string parent = entry.path.substr(0, slash);
      if (!looked_at.insert(parent).second || going.contains(parent)) continue;
      auto status = stat_link(join_path(target.folder, parent));
      if (status && !S_ISDIR(status->st_mode)) obstacles.push_back(join_path(target.folder, parent));
    }
    auto status = stat_link(target.path(entry));
    // A folder is no obstacle by itself: it may be empty once the files below it are gone; rmdir decides.
    if (status && !S_ISDIR(status->st_mode)) obstacles.push_back(target.path(entry));
  }
  return obstacles;
}

void refuse_losses(const std::vector<std::string>& lost) {
  if (lost.empty()) return;
  std::string names;
  for (std::size_t i = 0; i < std::min<std::size_t>(lost.size(), 3); ++i) names += (i ? ", " : "") + lost[i];
  if (lost.size() > 3) names += fmt::format(" and {} more", lost.size() - 3);
  throw Error(ErrorKind::kConflict, fmt::format("would overwrite or remove what is not in the store: {}", names),
              "'mlx add' it first, or use --force to lose it");
}

// Empty folders from `path`'s parent up to the root of the checkout.
void remove_empty_parents(const Target& target, std::string path) {
  for (std::size_t slash = path.rfind('/'); slash != std::string::npos; slash = path.rfind('/')) {
    path.resize(slash);
    if (::rmdir(join_path(target.folder, path).c_str()) != 0) return;
  }
}

// Clears what stands where `path` must go: an empty folder; with `force` an unseen file or link was removed before.
void clear_folder(const std::string& path) {
  auto status = stat_link(path);
  if (!status || !S_ISDIR(status->st_mode)) return;
  if (::rmdir(path.c_str()) == 0) return;
  throw Error(ErrorKind::kConflict, fmt::format("{}: a folder with other files stands where a file must go", path),
              "move it away, then try again");
}

void write_file(const Store& store, Disk& disk, const Entry& entry, const std::string& temporary, Progress& progress) {
  BlobReader reader = store.open_blob(entry.content);
  auto damaged = [&](std::string_view why) {
    fail(ErrorKind::kCorrupt, "{}: content {} in the store is damaged: {}", entry.path, entry.content.brief(), why);
  };
  if (reader.size() != entry.size) damaged("its size differs from the manifest");
  if (entry.mode == kModeLink) {
    if (reader.size() == 0 || reader.size() > kLongestLink) damaged("not the target of a link");
    std::string link(as_text(store.read_blob(entry.content)));
    if (link.find('\0') != std::string::npos) damaged("not the target of a link");
    if (::symlink(link.c_str(), temporary.c_str()) != 0) fail_errno(errno, temporary, "make symbolic link");
    return;
  }
  Fd fd = disk.create(temporary);
  Sha256 hash;
  Bytes buffer(static_cast<std::size_t>(std::min<std::uint64_t>(kCopySize, reader.size())));
  for (std::uint64_t offset = 0; offset < reader.size();) {
    check_interrupted();
    std::size_t count = reader.read_at(offset, buffer.data(), buffer.size());
    ByteView part = ByteView(buffer).first(count);
    hash.update(part);
    disk.write(fd, part, temporary);
    offset += count;
    progress.advance(count);
  }
  if (hash.finish() != entry.content) damaged("its chunks are not its content");
  if (entry.mode == kModeExecutable && ::fchmod(fd.get(), 0755) != 0) fail_errno(errno, temporary, "make executable");
}

void place_file(const Store& store, Disk& disk, const Target& target, const Entry& entry, int number,
                Progress& progress) {
  std::string path = target.path(entry);
  make_folders(parent_path(path));
  std::string temporary = join_path(parent_path(path), fmt::format(".mlx-tmp-{}-{}", ::getpid(), number));
  try {
    write_file(store, disk, entry, temporary, progress);
    clear_folder(path);
    disk.rename(temporary, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

void set_mode(const Target& target, const Entry& entry) {
  mode_t mode = entry.mode == kModeExecutable ? 0755 : 0644;
  if (::chmod(target.path(entry).c_str(), mode) != 0) fail_errno(errno, target.path(entry), "set mode");
}

// What the cache knows now: files that were written just before are racy until the clock has moved on, so wait for
// that.
void record(StatCache::State& cache, const Target& target, const std::vector<Entry>& entries, Pool& pool) {
  std::this_thread::sleep_for(std::chrono::milliseconds(25));
  std::int64_t seen_at = wall_nanos();
  std::vector<CachedFile> files(entries.size());
  std::vector<char> good(entries.size(), 0);
  pool.run(static_cast<std::int64_t>(entries.size()), [&](std::int64_t n) {
    auto i = static_cast<std::size_t>(n);
    auto status = stat_link(target.path(entries[i]));
    if (!status || stat_key(*status).size != entries[i].size || mode_of(*status) != entries[i].mode) return;
    files[i] = {entries[i].path, entries[i].mode, stat_key(*status), entries[i].content};
    good[i] = 1;
  });
  std::vector<CachedFile> kept;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (good[i]) kept.push_back(std::move(files[i]));
  }
  cache.save(target.folder, kept, seen_at);
}

}  // namespace

void checkout(const Store& store, const Digest& manifest, const std::string& folder, bool force, StatCache* cache,
              Pool& pool, Progress& progress) {
  Disk& disk = StoreAccess::state(store).disk;
  std::vector<Entry> wanted = store.entries(manifest);
  for (const Entry& entry : wanted) {
    if (!store.has_whole_blob(entry.content)) {
      throw Error(ErrorKind::kNotFound,
                  fmt::format("{}: its content {} is not in the store", entry.path, entry.content.brief()),
                  "`mlx pull` fetches what the pointers name, `mlx fetch --all` everything that a remote has");
    }
  }
  Target target{folder};
  auto standing = stat_link(folder);
  bool folder_stands = standing && is_folder(folder);
  target.single = wanted.size() == 1 && wanted[0].path == base_name(folder) && !folder_stands;
  std::vector<Entry> current;
  if (folder_stands || (standing && target.single))
    current = scan(folder, cache, pool, progress);
  else if (standing)
    refuse_losses(force ? std::vector<std::string>() : std::vector<std::string>{folder});

  Difference difference = compare(current, wanted);
  Plan plan = plan_from(difference);
  std::unordered_set<std::string> going;
  for (const Entry& entry : plan.remove) going.insert(entry.path);
  std::vector<std::string> lost;
  auto require_stored = [&](const Entry& before) {
    if (!store.has_whole_blob(before.content)) lost.push_back(target.path(before));
  };
  for (const Entry& before : difference.removed) require_stored(before);
  for (const auto& [before, after] : difference.changed) {
    if (before.content != after.content) require_stored(before);
  }
  std::vector<std::string> obstacles = unseen_obstacles(target, difference.added, going);
  lost.insert(lost.end(), obstacles.begin(), obstacles.end());
  if (!force) refuse_losses(lost);

  if (standing && !folder_stands && !target.single) disk.remove(folder);
  if (!target.single) make_folders(folder);
  for (const std::string& path : obstacles) disk.remove(path);
  for (const Entry& entry : plan.remove) {
    disk.remove(target.path(entry));
    if (!target.single) remove_empty_parents(target, entry.path);
  }
  std::uint64_t bytes = 0;
  for (const Entry& entry : plan.write) bytes += entry.size;
  if (!plan.write.empty()) {
    progress.begin("Checking out", bytes, "B");
    pool.run(static_cast<std::int64_t>(plan.write.size()), [&](std::int64_t n) {
      check_interrupted();
      place_file(store, disk, target, plan.write[static_cast<std::size_t>(n)], static_cast<int>(n), progress);
    });
    progress.end();
  }
  for (const Entry& entry : plan.set_mode) set_mode(target, entry);
  bool wrote = !plan.write.empty() || !plan.set_mode.empty();
  if (StatCache::State* state = StatCacheAccess::state(cache); state && wrote) record(*state, target, wanted, pool);
}

}  // namespace mlx::store
