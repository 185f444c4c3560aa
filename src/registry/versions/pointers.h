// Pointer files: the small text files beside data and models that git tracks (mlx-format-pointer(5)). data/fashion.mlx
// belongs to the folder data/fashion; models/NAME.mlx to a model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "registry/versions/pointer_text.h"

namespace mlx::registry {

std::string pointer_path(ArtifactKind kind, const std::string& artifact);  // relative to the root
std::optional<Pointer> read_pointer(Repository& repository, const std::string& artifact);
// Atomic. Leaves a file that is up to date alone. True if the file changed.
bool write_pointer(Repository& repository, const Pointer& pointer);
bool remove_pointer(Repository& repository, const Pointer& pointer);  // false if there is none
// Every pointer below the root, sorted by artifact. Skips .git, .mlx and the folders of datasets, and other programs'
// *.mlx files. Throws kCorrupt if one of this repository's artifacts should have its pointer in such a file, or if a
// pointer is in the wrong place.
std::vector<Pointer> all_pointers(Repository& repository);
// The same, but lists unreadable pointers in `broken`: damaged ones (kCorrupt), and unfinished merges of git
// (kConflict).
struct BrokenPointer {
  std::string path;  // of the file, relative to the root
  Error error;
};
std::vector<Pointer> all_pointers(Repository& repository, std::vector<BrokenPointer>& broken);
// The same without unreadable pointers, which fsck reports.
std::vector<Pointer> readable_pointers(Repository& repository);
void ignore_in_git(Repository& repository, const std::string& path);  // adds "/NAME" to the .gitignore beside it, once

bool unignore_in_git(Repository& repository, const std::string& path);  // removes that line; true if it was there

}  // namespace mlx::registry
