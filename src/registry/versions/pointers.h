// Pointer files: the small text files beside data and models that git tracks (mlx-format-pointer(5)); one `key value` a
// line, sorted. data/fashion.mlx for the folder data/fashion; models/NAME.mlx for a model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "registry/versions/pointer_text.h"

namespace mlx::registry {

std::string pointer_path(ArtifactKind kind, const std::string& artifact);  // relative to the root
std::optional<Pointer> read_pointer(Repository& repository, const std::string& artifact);
// Atomic; not touched where it already says this. True where it changed.
bool write_pointer(Repository& repository, const Pointer& pointer);
bool remove_pointer(Repository& repository, const Pointer& pointer);  // false where there is none
// Every pointer below the root, sorted by artifact. What stands in .git, .mlx and in the folders of datasets is not
// looked at, and other files that are called *.mlx are none, unless an artifact of this repository has its pointer
// there: then it is kCorrupt, as is a pointer that stands elsewhere than it should.
std::vector<Pointer> all_pointers(Repository& repository);
// The same, with those that cannot be read named in `broken`: damaged ones (kCorrupt), and unfinished merges of git
// (kConflict).
struct BrokenPointer {
  std::string path;  // of the file, relative to the root
  Error error;
};
std::vector<Pointer> all_pointers(Repository& repository, std::vector<BrokenPointer>& broken);
// The same without those that cannot be read, which fsck names.
std::vector<Pointer> readable_pointers(Repository& repository);
void ignore_in_git(Repository& repository, const std::string& path);  // adds "/NAME" to the .gitignore beside it, once

bool unignore_in_git(Repository& repository, const std::string& path);  // takes that line away; true where it stood

}  // namespace mlx::registry
