// The whole folder is walked, since any .mlxignore above a part may exclude it; only the parts are read.
#include "store/worktree/update.h"

#include <algorithm>

#include "base/error.h"
#include "store/worktree/add_files.h"
#include "store/worktree/checkout.h"
#include "store/worktree/walk.h"

namespace mlx::store {

namespace {

bool inside_any(std::string_view path, const std::vector<std::string>& parts) {
  return std::ranges::any_of(parts, [&](const std::string& part) { return is_inside(path, part); });
}

void require_something(const std::vector<Entry>& base, const Walk& found, const std::string& folder,
                       const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    const auto at_part = [&](const auto& one) { return is_inside(one.path, part); };
    if (std::ranges::any_of(found.files, at_part) || std::ranges::any_of(base, at_part)) continue;
    const std::string path = found.disk_path(folder, part);
    if (stat_link(path)) {
      throw Error(ErrorKind::kUsage, fmt::format("{}: there is no file to add", path),
                  "is it empty, behind a symbolic link, or left out by .mlxignore?");
    }
    throw Error(ErrorKind::kNotFound, fmt::format("{}: no such file or folder", path), "check the name");
  }
}

}  // namespace

std::vector<Entry> with_parts(const std::vector<Entry>& base, const std::vector<Entry>& standing,
                              const std::vector<std::string>& parts) {
  std::vector<Entry> result;
  for (const Entry& entry : standing) {
    if (inside_any(entry.path, parts)) result.push_back(entry);
  }
  const bool any = !result.empty();
  for (const Entry& entry : base) {
    // A file of `base` at the path of what is now a folder is gone.
    const bool above =
        any && std::ranges::any_of(parts, [&](const std::string& part) { return is_inside(part, entry.path); });
    if (!above && !inside_any(entry.path, parts)) result.push_back(entry);
  }
  std::ranges::sort(result, {}, &Entry::path);
  return result;
}

ManifestSummary add_parts(Store& store, const std::vector<Entry>& base, const std::string& folder,
                          const std::vector<std::string>& parts, Pool& pool, Progress& progress) {
  std::vector<std::pair<std::string, std::string>> to_add;
  if (stat_link(folder)) {
    const Walk found = walk(folder, pool, progress.interruption());
    require_something(base, found, folder, parts);
    for (const WalkedFile& file : found.files) {
      if (inside_any(file.path, parts)) to_add.emplace_back(found.disk_path(folder, file.path), std::string(file.path));
    }
  } else {
    require_something(base, {}, folder, parts);
  }
  const auto batch = store.begin();
  batch->use_bases(base);
  const std::vector<Entry> standing = add_files(*batch, to_add, progress);
  const ManifestSummary summary = batch->add_manifest(with_parts(base, standing, parts));
  batch->commit();
  return summary;
}

ManifestSummary drop_parts(Store& store, const std::vector<Entry>& base, const std::vector<std::string>& parts) {
  const auto batch = store.begin();
  const ManifestSummary summary = batch->add_manifest(with_parts(base, {}, parts));
  batch->commit();
  return summary;
}

}  // namespace mlx::store
