// Pointers of Git LFS, version 1: the small texts that git stores in place of contents. Bytes in, structure out, and
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
  Digest oid;  // SHA-256 of the stored object, which is the content itself unless there are extensions
  std::uint64_t size = 0;
  std::vector<std::pair<std::string, std::string>> extensions;  // "ext-0-name" and its value, in the order of the keys
  bool operator==(const LfsPointer&) const = default;
};

// nullopt if it is not a pointer: a text that does not begin as one, an empty file, or 1024 bytes or more. A text that
// begins as a pointer and is not a valid one is kCorrupt: "WHAT:LINE: …".
std::optional<LfsPointer> parse_lfs_pointer(std::string_view text, std::string_view what);
std::string encode_lfs_pointer(const LfsPointer& pointer);

}  // namespace mlx::formats
