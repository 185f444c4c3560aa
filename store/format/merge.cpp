// Three lists of entries are walked side by side; what clashes as file and folder is settled at the end.
#include "store/format/merge.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

namespace mlx::store {
namespace {

struct Sides {
  const Entry *base = nullptr, *ours = nullptr, *theirs = nullptr;
};

bool same(const Entry* a, const Entry* b) {
  return a == nullptr || b == nullptr ? a == b : *a == *b;
}

// Takes the entry of the next path from each list that has it.
class Zipper {
 public:
  Zipper(const std::vector<Entry>& base, const std::vector<Entry>& ours, const std::vector<Entry>& theirs)
      : base_{&base, 0}, ours_{&ours, 0}, theirs_{&theirs, 0} {}

  bool next(Sides& sides) {
    const std::string* path = nullptr;
    for (const List* list : {&base_, &ours_, &theirs_}) {
      if (list->at < list->entries->size() && (path == nullptr || list->head().path < *path)) path = &list->head().path;
    }
    if (path == nullptr) return false;
    sides = {base_.take(*path), ours_.take(*path), theirs_.take(*path)};
    return true;
  }

 private:
  struct List {
    const std::vector<Entry>* entries;
    std::size_t at;
    const Entry& head() const { return (*entries)[at]; }
    const Entry* take(const std::string& path) {
      return at < entries->size() && head().path == path ? &(*entries)[at++] : nullptr;
    }
  };
  List base_, ours_, theirs_;
};

// If one side changed only the bytes and the other only the executable bit, takes both; else null.
std::optional<Entry> merge_mode(const Sides& sides) {
  if (sides.base == nullptr || sides.ours == nullptr || sides.theirs == nullptr) return std::nullopt;
  const Entry &base = *sides.base, &ours = *sides.ours, &theirs = *sides.theirs;
  for (const Entry* entry : {&base, &ours, &theirs})
    if (entry->mode == kModeLink) return std::nullopt;
  const bool content_ours = theirs.content == base.content, content_theirs = ours.content == base.content;
  if (!content_ours && !content_theirs && ours.content != theirs.content) return std::nullopt;
  Entry merged = content_theirs ? theirs : ours;
  merged.mode = theirs.mode == base.mode ? ours.mode : theirs.mode;
  return merged;
}

const char* describe(const Sides& sides) {
  if (sides.base == nullptr) return "added on both sides, differently";
  if (sides.theirs == nullptr) return "changed in ours, deleted in theirs";
  if (sides.ours == nullptr) return "deleted in ours, changed in theirs";
  return "changed on both sides, differently";
}

void merge_path(const Sides& sides, Favour favour, MergedEntries& merged) {
  const Entry* taken = sides.ours;
  if (same(sides.ours, sides.theirs)) {
    // both did the same, or nothing
  } else if (same(sides.ours, sides.base)) {
    taken = sides.theirs, merged.from_theirs += 1;
  } else if (same(sides.theirs, sides.base)) {
    merged.from_ours += 1;
  } else if (const std::optional<Entry> both = merge_mode(sides)) {
    merged.from_ours += 1, merged.from_theirs += 1;
    merged.entries.push_back(*both);
    return;
  } else if (favour == Favour::kNone) {
    const Entry* known = sides.ours != nullptr ? sides.ours : sides.theirs;
    merged.conflicts.push_back({known->path, describe(sides)});
  } else {
    if (favour == Favour::kTheirs) taken = sides.theirs;
    (favour == Favour::kTheirs ? merged.from_theirs : merged.from_ours) += 1;
  }
  if (taken != nullptr) merged.entries.push_back(*taken);
}

// Calls `visit` with every folder that holds `path`, innermost last.
template <typename Visit>
void for_each_folder(const std::string& path, const Visit& visit) {
  for (std::size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    visit(path.substr(0, slash));
  }
}

bool has_path(const std::vector<Entry>& entries, const std::string& path) {
  const auto found = std::ranges::lower_bound(entries, path, {}, &Entry::path);
  return found != entries.end() && found->path == path;
}

// One side has a file where the other has a folder. Each side by itself is a tree, so the favoured one of the two
// stays.
void settle_clashes(MergedEntries& merged, const std::vector<Entry>* favoured) {
  std::unordered_set<std::string> folders, clashes;
  for (const Entry& entry : merged.entries)
    for_each_folder(entry.path, [&](std::string folder) { folders.insert(std::move(folder)); });
  for (const Entry& entry : merged.entries)
    if (folders.contains(entry.path)) clashes.insert(entry.path);
  if (clashes.empty()) return;
  if (favoured == nullptr) {
    for (const std::string& path : clashes)
      merged.conflicts.push_back({path, "a file on one side, a folder on the other"});
    std::ranges::sort(merged.conflicts, {}, &MergeConflict::path);
    return;
  }
  std::erase_if(merged.entries, [&](const Entry& entry) {
    bool clashing = clashes.contains(entry.path);
    for_each_folder(entry.path, [&](const std::string& folder) { clashing = clashing || clashes.contains(folder); });
    return clashing && !has_path(*favoured, entry.path);
  });
}

}  // namespace

MergedEntries merge_entries(const std::vector<Entry>& base, const std::vector<Entry>& ours,
                            const std::vector<Entry>& theirs, Favour favour) {
  MergedEntries merged;
  Zipper zipper(base, ours, theirs);
  for (Sides sides; zipper.next(sides);) merge_path(sides, favour, merged);
  settle_clashes(merged, favour == Favour::kNone ? nullptr : favour == Favour::kOurs ? &ours : &theirs);
  return merged;
}

}  // namespace mlx::store
