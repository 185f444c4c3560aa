// Makes datasets of data that another tool keeps. Contents come from that tool's own store, and each is checked against
// the digest that the tool recorded. The worktree's files are neither read nor touched. Used by
// registry/interop/lfs_import.cpp and dvc.cpp.
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
  // The content: a file on disk, or what `load` returns if `source` is "".
  std::string source;
  std::function<std::string()> load;
  std::optional<Digest> digest;                          // the expected digest, if the tool records it
  std::function<void(const std::string& source)> check;  // the tool's own check of `source`, if it has another one
};

struct ImportDataset {
  std::string artifact;
  std::vector<ImportFile> files;
  std::uint64_t bytes() const;
};

// True if the content need not be read: this store is not encrypted and has all of it.
bool is_stored(Repository& repository, const ImportFile& file);

// Refuses datasets that conflict with existing ones: kUsage, kConflict. Called before anything is imported.
void check_import(Repository& repository, const std::vector<ImportDataset>& datasets);

struct Imported {
  Pointer pointer;
  bool changed = false;  // the pointer differed before
};
// Stores the missing contents durably, then writes the pointers and their lines in .gitignore. If storing fails, no
// pointer is written. Throws kCorrupt for content that does not match its digest.
std::vector<Imported> import_datasets(Repository& repository, const std::vector<ImportDataset>& datasets,
                                      Progress& progress);

}  // namespace mlx::registry
