// The text of a pointer file (mlx-format-pointer(5)): one `key value` per line, sorted. Used by pointers.cpp and
// pointer_merge.cpp.
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
// Throws kCorrupt with file and line; kConflict if the file holds the marks of an unfinished merge.
Pointer decode_pointer(std::string_view text, const std::string& file);
// Other programs use *.mlx as well (MATLAB's live scripts), and datasets hold such files. A pointer names its own place
// (`relative` to the root) in its first line, or has a digest in its second, whatever else happened to it. An empty
// file, or one of zeros, is a damaged pointer.
bool looks_like_pointer(std::string_view text, std::string_view relative);

}  // namespace mlx::registry
