// Manifests: the tree of a version, in shards that depend on the files alone (mlx-format-manifest(5)).
//
// Entries sort by path bytes; a shard ends after an entry whose SHA-256(path) mod 1024 is 0 (first eight bytes, big
// endian). The root lists its shards; a version's id is the SHA-256 of the root's bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"

namespace mlx::store {

inline constexpr std::uint32_t kModeFile = 0100644;
inline constexpr std::uint32_t kModeExecutable = 0100755;
inline constexpr std::uint32_t kModeLink = 0120000;

struct Entry {
  std::string path;  // relative bytes, safe (is_safe_relative); never empty
  std::uint32_t mode = kModeFile;
  std::uint64_t size = 0;
  Digest content;  // SHA-256 of the file's bytes (of the target for a link)
  bool operator==(const Entry&) const = default;
};

struct ManifestSummary {
  Digest id;
  std::uint64_t files = 0;
  std::uint64_t bytes = 0;
  bool operator==(const ManifestSummary&) const = default;
};

struct ShardRef {
  std::string first_path;
  Digest id;
  std::uint64_t files = 0, bytes = 0;
};

// Encoding and strict decoding (kCorrupt on unsafe, unsorted or doubled paths, unknown modes or versions, left-over
// bytes).
Bytes encode_shard(std::span<const Entry> entries);
std::vector<Entry> decode_shard(ByteView bytes);
Bytes encode_root(const std::vector<ShardRef>& shards);
std::vector<ShardRef> decode_root(ByteView bytes);
// The shards of sorted entries, as parts of `sorted`.
std::vector<std::span<const Entry>> cut_shards(std::span<const Entry> sorted);
bool ends_shard(const std::string& path);
// What add_manifest would return for sorted entries, without storing anything.
ManifestSummary summarize(const std::vector<Entry>& sorted);
// The first path of a sorted list that is also a folder of another path ("a" beside "a/b"); no tree can hold both.
std::optional<std::string> find_path_clash(const std::vector<Entry>& sorted);

}  // namespace mlx::store
