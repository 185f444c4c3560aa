// Finds what HEAD tracks with Git LFS by its pointers, and divides it into datasets.
#include "registry/interop/lfs_import.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/git.h"
#include "base/path.h"
#include "base/text.h"
#include "formats/lfs_pointer.h"

namespace mlx::registry {
namespace {

struct Tracked {
  GitFile git;
  std::string path;  // relative to the root of mlx
  std::optional<formats::LfsPointer> pointer;
};

std::vector<Tracked> tracked_files(const std::string& git_root, const std::string& root) {
  std::vector<Tracked> list;
  for (GitFile& file : git_files_at_head(git_root, formats::kLfsPointerLimit)) {
    const std::optional<std::string> path = relative_inside(join_path(git_root, file.path), root);
    if (!path || path->empty()) continue;
    Tracked one{std::move(file), *path, {}};
    if (one.git.mode != store::kModeLink) one.pointer = formats::parse_lfs_pointer(one.git.text, one.git.path);
    if (one.pointer && !one.pointer->extensions.empty()) {
      throw Error(ErrorKind::kMissing,
                  fmt::format("{}: the git-lfs extension {} has processed its content", one.path,
                              one.pointer->extensions[0].first),
                  "`git lfs pull`, then `mlx add` the files");
    }
    list.push_back(std::move(one));
  }
  return list;
}

// One of git's own files, which may be in a folder that is otherwise in LFS.
bool is_git_setting(const std::string& path) {
  const std::string name = base_name(path);
  return name == ".gitattributes" || name == ".gitignore";
}

// The dataset that `path` belongs to: the topmost folder with only LFS files below it, else the file itself.
std::string dataset_of(const std::string& path, const std::map<std::string, bool>& mixed) {
  for (std::size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    if (!mixed.at(folder)) return folder;
  }
  return path;
}

std::vector<std::string> choose(const std::vector<Tracked>& files) {
  std::map<std::string, bool> mixed;
  for (const Tracked& file : files) {
    for (std::size_t slash = file.path.find('/'); slash != std::string::npos; slash = file.path.find('/', slash + 1))
      mixed[file.path.substr(0, slash)] |= !file.pointer && file.git.size > 0 && !is_git_setting(file.path);
  }
  std::vector<std::string> chosen;
  for (const Tracked& file : files)
    if (file.pointer) chosen.push_back(dataset_of(file.path, mixed));
  std::ranges::sort(chosen);
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

ImportFile import_file(const Tracked& file, const std::string& inside, const std::string& git_root,
                       const std::string& lfs) {
  ImportFile one;
  one.path = inside;
  one.mode =
      file.git.mode == store::kModeExecutable || file.git.mode == store::kModeLink ? file.git.mode : store::kModeFile;
  one.size = file.pointer ? file.pointer->size : file.git.size;
  if (file.pointer) {
    one.digest = file.pointer->oid;
    one.source = lfs_object_path(lfs, file.pointer->oid);
  } else {
    one.load = [git_root, id = file.git.id] { return git_blob_content(git_root, id); };
  }
  return one;
}

ImportDataset collect(const std::vector<Tracked>& files, const std::string& artifact, const std::string& git_root,
                      const std::string& lfs) {
  ImportDataset dataset;
  dataset.artifact = artifact;
  std::size_t pointers = 0;
  for (const Tracked& file : files) {
    const bool single = file.path == artifact;
    if (!single && !file.path.starts_with(artifact + "/")) continue;
    const std::string inside = single ? base_name(artifact) : file.path.substr(artifact.size() + 1);
    dataset.files.push_back(import_file(file, inside, git_root, lfs));
    pointers += file.pointer ? 1 : 0;
  }
  if (dataset.files.empty())
    throw Error(ErrorKind::kNotFound, fmt::format("{}: not in the commit at HEAD", artifact),
                "commit it, or check the name");
  if (pointers == 0)
    throw Error(ErrorKind::kUsage, fmt::format("{}: no file in it is tracked by Git LFS", artifact),
                fmt::format("`mlx add {}` adds it as it is", shell_quoted(artifact)));
  return dataset;
}

void require_objects(Repository& repository, const std::vector<ImportDataset>& datasets) {
  std::size_t missing = 0;
  std::string first;
  for (const ImportDataset& dataset : datasets) {
    for (const ImportFile& file : dataset.files) {
      if (!file.digest || path_exists(file.source) || is_stored(repository, file)) continue;
      if (missing++ == 0) first = dataset.artifact + (dataset.files.size() == 1 ? "" : "/" + file.path);
    }
  }
  if (missing == 0) return;
  throw Error(ErrorKind::kNotFound,
              fmt::format("{}{}: not in the local cache of git-lfs", first,
                          missing == 1 ? "" : fmt::format(" and {} more", missing - 1)),
              "`git lfs fetch` brings it");
}

}  // namespace

std::string lfs_object_path(const std::string& lfs, const Digest& oid) {
  const std::string hex = oid.hex();
  return fmt::format("{}/objects/{}/{}/{}", lfs, hex.substr(0, 2), hex.substr(2, 2), hex);
}

std::vector<ImportDataset> find_lfs_datasets(Repository& repository, const std::vector<std::string>& paths) {
  const std::optional<std::string> git_root = find_git_root(repository.root());
  if (!git_root)
    throw Error(ErrorKind::kNotFound, fmt::format("{}: not in a git repository", repository.root()),
                "Git LFS pointers are in a git repository");
  const std::string lfs = git_lfs_folder(*git_root);
  const std::vector<Tracked> files = tracked_files(*git_root, repository.root());
  std::vector<ImportDataset> datasets;
  for (const std::string& artifact : paths.empty() ? choose(files) : paths)
    datasets.push_back(collect(files, artifact, *git_root, lfs));
  check_import(repository, datasets);
  require_objects(repository, datasets);
  return datasets;
}

}  // namespace mlx::registry
