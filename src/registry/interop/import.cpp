// Stores contents first, then manifests, then pointers.
#include "registry/interop/import.h"

#include <algorithm>

#include "base/error.h"
#include "base/path.h"
#include "registry/operations/names.h"
#include "registry/versions/domains.h"
#include "store/worktree/add_files.h"

namespace mlx::registry {
namespace {

using store::Entry;

bool overlap(const std::string& a, const std::string& b) {
  return a.starts_with(b + "/") || b.starts_with(a + "/");
}

void check_shape(const ImportDataset& dataset) {
  for (const ImportFile& file : dataset.files) {
    if (!is_safe_relative(file.path) || has_private_part(file.path))
      fail(ErrorKind::kCorrupt, "{}: '{}' is not a path inside a folder", dataset.artifact, file.path);
  }
  if (dataset.files.empty())
    throw Error(ErrorKind::kUsage, fmt::format("{}: no files in it", dataset.artifact), "leave it out");
}

std::string shown(const ImportDataset& dataset, const ImportFile& file) {
  const bool single = dataset.files.size() == 1 && file.path == base_name(dataset.artifact);
  return single ? dataset.artifact : dataset.artifact + "/" + file.path;
}

// Checks a file's content against the digest that its tool recorded.
void require(const ImportDataset& dataset, const ImportFile& file, const Entry& entry) {
  if (!file.digest || *file.digest == entry.content) return;
  throw Error(ErrorKind::kCorrupt,
              fmt::format("{}: its content has the digest {}, expected {}: {}", shown(dataset, file),
                          entry.content.brief(), file.digest->brief(), file.source),
              "the cache is damaged: remove that file and fetch it again");
}

Entry entry_of(const ImportFile& file) {
  Entry entry;
  entry.path = file.path;
  entry.mode = file.mode;
  entry.size = file.size;
  if (file.digest) entry.content = *file.digest;
  return entry;
}

// Adds the contents that are missing here, and returns the dataset's entries.
std::vector<Entry> add_contents(Repository& repository, store::Batch& batch, const ImportDataset& dataset,
                                Progress& progress) {
  std::vector<Entry> entries;
  std::vector<std::pair<std::string, std::string>> to_read;
  std::vector<const ImportFile*> read;
  for (const ImportFile& file : dataset.files) {
    if (is_stored(repository, file)) {
      entries.push_back(entry_of(file));
    } else if (!file.source.empty()) {
      if (file.check) file.check(file.source);
      to_read.emplace_back(file.source, file.path);
      read.push_back(&file);
    } else {
      const std::string content = file.load();
      entries.push_back(entry_of(file));
      entries.back().size = content.size();
      entries.back().content = batch.add_blob(as_bytes(content));
      require(dataset, file, entries.back());
    }
    progress.check_interrupted();
  }
  std::vector<Entry> added = store::add_files(batch, to_read, progress);
  for (std::size_t i = 0; i < added.size(); ++i) {
    require(dataset, *read[i], added[i]);
    added[i].path = read[i]->path;
    added[i].mode = read[i]->mode;
    entries.push_back(std::move(added[i]));
  }
  return entries;
}

}  // namespace

std::uint64_t ImportDataset::bytes() const {
  std::uint64_t sum = 0;
  for (const ImportFile& file : files) sum += file.size;
  return sum;
}

// An encrypted store shares nothing between domains: content that is present may belong to another domain only.
bool is_stored(Repository& repository, const ImportFile& file) {
  return file.digest && !repository.store().encrypted() && repository.store().has_whole_blob(*file.digest);
}

void check_import(Repository& repository, const std::vector<ImportDataset>& datasets) {
  std::vector<std::string> others;
  for (const Pointer& pointer : all_pointers(repository))
    if (pointer.kind == ArtifactKind::kDataset) others.push_back(pointer.artifact);
  for (const ImportDataset& dataset : datasets) {
    if (const std::string problem = artifact_name_problem(dataset.artifact); !problem.empty()) {
      fail(ErrorKind::kUsage, "'{}' cannot name an artifact: {}", dataset.artifact, problem);
    }
    check_shape(dataset);
    for (const std::string& other : others) {
      if (!overlap(dataset.artifact, other)) continue;
      throw Error(ErrorKind::kConflict,
                  fmt::format("{} would hold the same files as the dataset {}", dataset.artifact, other),
                  "import another path, or `mlx rm` that dataset first");
    }
    others.push_back(dataset.artifact);
  }
}

std::vector<Imported> import_datasets(Repository& repository, const std::vector<ImportDataset>& datasets,
                                      Progress& progress) {
  std::vector<std::unique_ptr<store::Batch>> batches;  // one per dataset: it may have a key of its own
  std::vector<Imported> list;
  for (const ImportDataset& dataset : datasets) {
    store_under_domain_of(repository, dataset.artifact);
    batches.push_back(repository.store().begin());
    const store::ManifestSummary summary =
        batches.back()->add_manifest(add_contents(repository, *batches.back(), dataset, progress));
    Imported imported;
    imported.pointer = {.artifact = dataset.artifact,
                        .kind = ArtifactKind::kDataset,
                        .digest = summary.id,
                        .files = summary.files,
                        .size = summary.bytes};
    list.push_back(std::move(imported));
  }
  for (const std::unique_ptr<store::Batch>& batch : batches) batch->commit();
  for (Imported& imported : list) {
    ignore_in_git(repository, imported.pointer.artifact);
    imported.changed = write_pointer(repository, imported.pointer);
  }
  return list;
}

}  // namespace mlx::registry
