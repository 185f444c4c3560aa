// First the differences are found, and data that would be lost stops the checkout before anything is changed. Then
// files are removed and written below a folder held open. Nothing is ever written through a symbolic link, neither
// inside the folder nor, in a worktree, on the way to it.
#include "store/worktree/checkout.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <unordered_set>

#include "base/error.h"
#include "base/path.h"
#include "store/pack/store_state.h"
#include "store/worktree/placer.h"
#include "store/worktree/walk.h"

namespace mlx::store {

namespace {

// A mode alone is changed in place, unless other names share the file and its mode (hard links).
void sort_out(const Target& target, const Difference& difference, CheckoutPlan& plan) {
  plan.remove = difference.removed;
  plan.write = difference.added;
  for (const auto& [before, after] : difference.changed) {
    const bool links = before.mode == kModeLink || after.mode == kModeLink;
    bool in_place = before.content == after.content && !links;
    if (in_place) {
      const auto status = stat_link(target.path(after));
      in_place = status && status->st_nlink == 1;
    }
    (in_place ? plan.set_mode : plan.write).push_back(after);
  }
}

// Whether the folder at `relative` is empty once `going` are removed.
bool will_be_empty(const Target& target, const std::string& relative, const std::unordered_set<std::string>& going) {
  const std::string folder = join_path(target.folder, relative);
  for (const std::string& name : list_folder(folder)) {
    const std::string inside = relative + "/" + name;
    const auto status = stat_link(join_path(folder, name));
    if (!status) continue;
    if (S_ISDIR(status->st_mode) ? !will_be_empty(target, inside, going) : !going.contains(inside)) return false;
  }
  return true;
}

// Paths in the way of a new file that scan does not list: ignored files, folders, and links in place of folders.
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
    if (!status) continue;
    if (!S_ISDIR(status->st_mode))
      obstacles.push_back(target.path(entry));
    else if (!will_be_empty(target, entry.path, going))
      fail_folder_in_the_way(target.path(entry));
  }
  return obstacles;
}

void refuse_losses(const std::vector<std::string>& lost) {
  if (lost.empty()) return;
  std::string names;
  for (std::size_t i = 0; i < std::min<std::size_t>(lost.size(), 3); ++i) names += (i ? ", " : "") + lost[i];
  if (lost.size() > 3) names += fmt::format(" and {} more", lost.size() - 3);
  throw Error(ErrorKind::kConflict, fmt::format("would overwrite or remove what is not in the store: {}", names),
              "`mlx add` it first, or use --force to lose it");
}

// The folder to hold open: a worktree's root; else the folder itself, or its parent if it is absent.
Place place_of(const CheckoutPlan& plan) {
  if (!plan.root.empty()) {
    const std::optional<std::string> below = relative_inside(plan.folder, plan.root);
    CHECK(below.has_value());
    return {Beneath(plan.root), {*below, plan.single}};
  }
  if (!plan.single && is_folder(plan.folder)) return {Beneath(plan.folder), {"", false}};
  if (!plan.write.empty()) make_folders(parent_path(plan.folder));
  return {Beneath(parent_path(plan.folder)), {base_name(plan.folder), plan.single}};
}

// A path of the plan, relative to the folder that is held open.
std::string below(const CheckoutPlan& plan, const Place& place, const std::string& path) {
  return join_path(place.target.folder, relative_inside(path, plan.folder).value());
}

// Removes empty folders from `path`'s parent up to the root of the checkout.
void remove_empty_parents(const Place& place, std::string path) {
  for (std::size_t slash = path.rfind('/'); slash != std::string::npos; slash = path.rfind('/')) {
    path.resize(slash);
    if (!place.root.remove_folder(join_path(place.target.folder, path))) return;
  }
}

void set_mode(const Place& place, const Entry& entry) {
  const std::string path = place.target.path(entry);
  const Fd fd = place.root.open(path, O_RDONLY | O_NONBLOCK);
  if (::fchmod(fd.get(), entry.mode == kModeExecutable ? 0755 : 0644) != 0)
    fail_errno(errno, place.root.full(path), "set mode");
}

// Removes whatever is in the way, children first.
void clear_away(const CheckoutPlan& plan, const Place& place, Disk& disk) {
  for (const std::string& path : plan.obstacles) {
    disk.step(path);
    place.root.remove_tree(below(plan, place, path));
  }
  if (!place.target.single && !plan.write.empty()) {
    place.root.make_folders(place.target.folder);
    remove_stale_checkouts(place, disk);
  }
  for (const Entry& entry : plan.remove) {
    disk.step(place.root.full(place.target.path(entry)));
    place.root.remove(place.target.path(entry));
    if (!place.target.single) remove_empty_parents(place, entry.path);
  }
}

// Records the files in the stat cache. Files that were written just now are racy until the clock has ticked, so it
// waits for that.
void record(StatCache& cache, const Target& target, const std::vector<Entry>& entries, Pool& pool) {
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
    if (good[i]) kept.push_back(files[i]);
  }
  cache.save(target.folder, std::move(kept), seen_at);
}

// The folder's files now that the checkout concerns; if that is only a part, all of them are in `others`.
std::vector<Entry> standing_entries(const Target& target, const CheckoutOptions& options, CheckoutPlan& plan,
                                    StatCache* cache, Pool& pool, Progress& progress) {
  auto standing = stat_link(target.folder);
  if (!standing) return {};
  bool folder_stands = is_folder(target.folder);
  if (folder_stands == target.single) {
    plan.obstacles.push_back(target.folder);
    return {};
  }
  std::vector<Entry> all = scan(target.folder, cache, pool, progress);
  if (target.single && all.size() == 1) all[0].path = base_name(target.folder);
  if (options.inside.empty()) return all;
  std::vector<Entry> part;
  for (Entry& entry : all) (is_inside(entry.path, options.inside) ? part : plan.result).push_back(std::move(entry));
  return part;
}

void require_content(const Store& store, const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    if (store.has_whole_blob(entry.content)) continue;
    throw Error(ErrorKind::kNotFound,
                fmt::format("{}: its content {} is not in the store", entry.path, entry.content.brief()),
                "`mlx pull` fetches what the pointers name, `mlx fetch --all` everything that a remote has");
  }
}

}  // namespace

std::uint64_t CheckoutPlan::bytes() const {
  std::uint64_t sum = 0;
  for (const Entry& entry : write) sum += entry.size;
  return sum;
}

bool is_inside(std::string_view entry_path, std::string_view path) {
  if (path.empty() || entry_path == path) return true;
  return entry_path.starts_with(path) && entry_path[path.size()] == '/';
}

std::vector<Entry> entries_inside(const std::vector<Entry>& entries, const std::string& path) {
  std::vector<Entry> inside;
  std::copy_if(entries.begin(), entries.end(), std::back_inserter(inside),
               [&](const Entry& entry) { return is_inside(entry.path, path); });
  return inside;
}

CheckoutPlan plan_checkout(const Store& store, std::vector<Entry> wanted, const std::string& folder,
                           const CheckoutOptions& options, StatCache* cache, Pool& pool, Progress& progress) {
  CheckoutPlan plan;
  plan.folder = folder;
  plan.root = options.root;
  plan.single = options.single;
  const Target target{folder, options.single};
  if (target.single) {
    CHECK(wanted.size() <= 1);
    for (Entry& entry : wanted) entry.path = base_name(folder);
  }
  const std::vector<Entry> current = standing_entries(target, options, plan, cache, pool, progress);
  const Difference difference = compare(current, wanted);
  sort_out(target, difference, plan);
  require_content(store, plan.write);

  std::vector<std::string> lost = plan.obstacles;
  auto require_stored = [&](const Entry& before) {
    if (!store.has_whole_blob(before.content)) lost.push_back(target.path(before));
  };
  for (const Entry& before : difference.removed) require_stored(before);
  for (const auto& [before, after] : difference.changed) {
    if (before.content != after.content) require_stored(before);
  }
  if (plan.obstacles.empty()) {
    std::unordered_set<std::string> going;
    for (const Entry& entry : plan.remove) going.insert(entry.path);
    plan.obstacles = unseen_obstacles(target, difference.added, going);
    lost.insert(lost.end(), plan.obstacles.begin(), plan.obstacles.end());
  }
  if (!options.force) refuse_losses(lost);
  plan.result.insert(plan.result.end(), wanted.begin(), wanted.end());
  std::ranges::sort(plan.result, {}, &Entry::path);
  return plan;
}

CheckoutReport carry_out(const Store& store, const CheckoutPlan& plan, LinkMode link, StatCache* cache, Pool& pool,
                         Progress& progress) {
  Disk& disk = StoreAccess::state(store).disk;
  CheckoutReport report;
  if (plan.empty()) return report;
  const Place place = place_of(plan);
  clear_away(plan, place, disk);
  if (!plan.write.empty()) {
    Placer placer(store, disk, place, link, progress);
    progress.begin("Checking out", plan.bytes(), "B");
    pool.run(static_cast<std::int64_t>(plan.write.size()), [&](std::int64_t n) {
      progress.check_interrupted();
      placer.place(plan.write[static_cast<std::size_t>(n)], static_cast<int>(n));
    });
    progress.end();
    report = placer.report();
  }
  for (const Entry& entry : plan.set_mode) set_mode(place, entry);
  const bool wrote = !plan.write.empty() || !plan.set_mode.empty();
  if (cache && wrote) record(*cache, {plan.folder, plan.single}, plan.result, pool);
  return report;
}

void checkout(const Store& store, const Digest& manifest, const std::string& folder, bool force, StatCache* cache,
              Pool& pool, Progress& progress) {
  std::vector<Entry> wanted = store.entries(manifest);
  CheckoutOptions options;
  options.force = force;
  options.single = wanted.size() == 1 && wanted[0].path == base_name(folder) && !is_folder(folder);
  const CheckoutPlan plan = plan_checkout(store, std::move(wanted), folder, options, cache, pool, progress);
  carry_out(store, plan, LinkMode::kCopy, cache, pool, progress);
}

}  // namespace mlx::store
