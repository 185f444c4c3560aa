// Pointers of Git LFS, version 1: the small texts that git holds in place of contents. Bytes in, structure out, and
// back to the same bytes. Used by import and export. Source: git-lfs, docs/spec.md, "The Pointer".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace mlx::formats {

inline constexpr std::size_t kLfsPointerLimit = 1024;  // a pointer is shorter than this

struct LfsPointer {
  Digest oid;  // SHA-256 of the stored object: of the content itself if there are no extensions
  std::uint64_t size = 0;
  std::vector<std::pair<std::string, std::string>> extensions;  // "ext-0-name" and its value, in the order of the keys
  bool operator==(const LfsPointer&) const = default;
};

// nullopt for what is no pointer: any text that does not begin as one, an empty file, one of 1024 bytes or more. What
// begins as a pointer and is not exactly one is kCorrupt: "WHAT:LINE: …".
std::optional<LfsPointer> parse_lfs_pointer(std::string_view text, std::string_view what);
std::string encode_lfs_pointer(const LfsPointer& pointer);

}  // namespace mlx::formats
