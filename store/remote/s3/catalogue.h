// The catalogue of an S3 remote (mlx-format-remote(5), S3 LAYOUT): its heads and its packs, as structure and as text.
// Used by remote.cpp; the text is hostile input.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace mlx::store::s3 {

inline constexpr std::uint64_t kMaxPackSize = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kMaxCatalogueSize = std::uint64_t{64} << 20;

struct PackEntry {
  Digest id;
  std::uint64_t size = 0, records = 0;
  auto operator<=>(const PackEntry&) const = default;
  std::uint64_t tail_size() const;  // of trailing index and footer
};

struct Catalogue {
  std::vector<Digest> heads;     // sorted, none twice
  std::vector<PackEntry> packs;  // sorted by id, none twice
  bool operator==(const Catalogue&) const = default;
  void add(const std::vector<PackEntry>& more);  // a union
};

std::string encode_catalogue(const Catalogue& catalogue);
Catalogue decode_catalogue(std::string_view text, const std::string& where);  // kCorrupt

}  // namespace mlx::store::s3
