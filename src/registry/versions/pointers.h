// Pointer files: the small text files beside data and models that git tracks (mlx-format-pointer(5)); one `key value` a
// line, sorted. data/fashion.mlx for the folder data/fashion; models/NAME.mlx for a model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "registry/versions/artifacts.h"

namespace mlx::registry {

struct Pointer {
  std::string artifact;
  ArtifactKind kind = ArtifactKind::kDataset;
  Digest digest;
  std::uint64_t files = 0, size = 0;
  bool operator==(const Pointer&) const = default;
};

std::string encode_pointer(const Pointer& pointer);
// kCorrupt with file and line; kConflict where it holds the marks of an unfinished merge.
Pointer decode_pointer(std::string_view text, const std::string& file);
// Other programs have files called *.mlx, too (MATLAB's live scripts), and datasets hold them. A pointer names the
// place where it stands (`relative` to the root) in its first line or has a digest in its second, whatever else became
// of it; one that was cut off to nothing, or to zeros, is a damaged one.
bool looks_like_pointer(std::string_view text, std::string_view relative);
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
