// Datasets made of what another tool keeps: contents come from that tool's own store, each checked by the digest that
// the tool knows it by, and the worktree's files are neither read nor touched. Used by registry/interop/lfs.h and
// dvc.h.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "registry/versions/pointers.h"

namespace mlx::registry {

struct ImportFile {
  std::string path;  // inside the dataset
  std::uint32_t mode = store::kModeFile;
  std::uint64_t size = 0;
  // Where the content is: a file on disk, or (source "") what `load` returns.
  std::string source;
  std::function<std::string()> load;
  std::optional<Digest> digest;                          // what it must be, where the tool knows it
  std::function<void(const std::string& source)> check;  // the tool's own check of `source`, where it has another
};

struct ImportDataset {
  std::string artifact;
  std::vector<ImportFile> files;
  std::uint64_t bytes() const;
};

// Whether the content need not be read again: it is in this store, under no key or the only one.
bool is_stored(Repository& repository, const ImportFile& file);

// Refuses what could not stand beside the datasets that there are: kUsage, kConflict; before anything is imported.
void check_import(Repository& repository, const std::vector<ImportDataset>& datasets);

struct Imported {
  Pointer pointer;
  bool changed = false;  // the pointer did not say this before
};
// Stores the contents that are not here yet, durably, and then writes the pointers and their lines in .gitignore: of
// all datasets or, where something fails, of none. kCorrupt where a content is not what it must be.
std::vector<Imported> import_datasets(Repository& repository, const std::vector<ImportDataset>& datasets,
                                      Progress& progress);

}  // namespace mlx::registry
