// Pairs files by path, finds those that were moved, and counts images by folder.
#include "diff/diff_files.h"

#include <algorithm>
#include <array>

#include "base/path.h"
#include "store/worktree/moves.h"
#include "store/worktree/scan.h"

namespace mlx::diff {
namespace {

using FileKind = FileDiff::Kind;

bool is_image(std::string_view path) {
  constexpr std::array<std::string_view, 11> kEndings = {".png", ".jpg",  ".jpeg", ".webp", ".bmp", ".gif",
                                                         ".tif", ".tiff", ".ppm",  ".pgm",  ".avif"};
  std::string ending(path.substr(std::min(path.rfind('.'), path.size())));
  std::ranges::transform(ending, ending.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return std::ranges::find(kEndings, ending) != kEndings.end();
}

std::vector<FolderCount> count_images(const Side& before, const Side& after, const store::Difference& difference) {
  std::map<std::string, FolderCount> folders;
  const auto count = [&](const store::Entry& entry, std::uint64_t FolderCount::*number) {
    if (is_image(entry.path)) ++(folders[parent_path(entry.path)].*number);
  };
  for (const store::Entry& entry : before.entries) count(entry, &FolderCount::before);
  for (const store::Entry& entry : after.entries) count(entry, &FolderCount::after);
  for (const store::Entry& entry : difference.added) count(entry, &FolderCount::added);
  for (const store::Entry& entry : difference.removed) count(entry, &FolderCount::removed);
  for (const auto& change : difference.changed) count(change.second, &FolderCount::changed);
  std::vector<FolderCount> found;
  for (auto& [folder, counts] : folders) {
    counts.folder = folder;
    if (counts.added + counts.removed + counts.changed > 0) found.push_back(counts);
  }
  return found;
}

std::uint64_t bytes_of(const Side& side) {
  std::uint64_t bytes = 0;
  for (const store::Entry& entry : side.entries) bytes += entry.size;
  return bytes;
}

}  // namespace

Comparison compare_sides(const Side& before, const Side& after, const ContentOptions& options, Pool& pool,
                         Progress& progress) {
  Comparison result;
  result.bytes_before = bytes_of(before), result.bytes_after = bytes_of(after);
  store::Difference difference = store::compare(before.entries, after.entries);
  result.same = before.entries.size() - difference.removed.size() - difference.changed.size();
  result.images = count_images(before, after, difference);
  for (const auto& [old, now] : store::take_moves(difference))
    result.files.push_back({FileKind::kMoved, old, now, {}, {}, {}, {}, {}});
  for (const auto& [old, now] : difference.changed)
    result.files.push_back({FileKind::kChanged, old, now, {}, {}, {}, {}, {}});
  for (const store::Entry& entry : difference.added)
    result.files.push_back({FileKind::kAdded, {}, entry, {}, {}, {}, {}, {}});
  for (const store::Entry& entry : difference.removed)
    result.files.push_back({FileKind::kRemoved, entry, {}, {}, {}, {}, {}, {}});
  std::ranges::sort(result.files, [](const FileDiff& a, const FileDiff& b) { return a.entry().path < b.entry().path; });
  if (!options.contents) return result;
  std::size_t compared = 0;
  for (FileDiff& file : result.files) {
    if (file.kind != FileKind::kChanged || file.before->content == file.after->content) continue;
    if (std::ranges::find(options.names_only, file.entry().path) != options.names_only.end()) continue;
    if (compared++ < options.most_files)
      compare_contents(before, after, options, pool, progress, file);
    else
      ++result.not_compared;
  }
  return result;
}

}  // namespace mlx::diff
