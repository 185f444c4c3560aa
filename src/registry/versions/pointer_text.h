// The text of a pointer file (mlx-format-pointer(5)): one `key value` a line, sorted. Used by pointers.cpp and by what
// merges pointers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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

}  // namespace mlx::registry
