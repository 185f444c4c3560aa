// Encoding and strict decoding of manifests (mlx-format-manifest(5)). One set of files has exactly one encoding, so
// decoding refuses everything that encoding would not have produced.
#include "store/format/manifest.h"

#include <algorithm>

#include "base/error.h"
#include "base/foreign_files.h"
#include "base/path.h"

namespace mlx::store {

namespace {

constexpr std::string_view kShardMagic = "MLXS";
constexpr std::string_view kRootMagic = "MLXM";
constexpr std::uint16_t kManifestVersion = 1;
constexpr std::size_t kSmallestEntry = 1 + 1 + 1 + 1 + 32;  // path length, path, mode, size, digest
constexpr std::size_t kSmallestShardRef = 1 + 1 + 32 + 1 + 1;
constexpr std::uint64_t kShardModulus = 1024;

void write_header(ByteWriter& out, std::string_view magic) {
  out.raw(as_bytes(magic));
  out.u16(kManifestVersion);
  out.u8(kSha256Number);
  out.u8(0);
}

void read_header(ByteReader& in, std::string_view magic) {
  if (as_text(in.take(4)) != magic) in.corrupt("wrong magic");
  std::uint16_t version = in.u16();
  if (version != kManifestVersion)
    in.corrupt(fmt::format("format version {}, this mlx knows {}", version, kManifestVersion));
  if (std::uint8_t algorithm = in.u8(); algorithm != kSha256Number) {
    in.corrupt(fmt::format("unknown hash algorithm {}", algorithm));
  }
  if (in.u8() != 0) in.corrupt("reserved byte is not 0");
}

// LEB128 in its shortest form only: a longer one would give the same files another id.
std::uint64_t shortest_varint(ByteReader& in) {
  std::size_t start = in.offset();
  std::uint64_t value = in.varint();
  std::size_t length = 1;
  for (std::uint64_t rest = value >> 7; rest != 0; rest >>= 7) ++length;
  if (in.offset() - start != length) in.corrupt("number is not in its shortest form");
  return value;
}

std::uint64_t read_count(ByteReader& in, std::size_t smallest, std::string_view what) {
  std::uint64_t count = shortest_varint(in);
  if (count > in.left() / smallest) in.corrupt(fmt::format("{} {} do not fit in {} bytes", count, what, in.left()));
  return count;
}

std::string read_path(ByteReader& in, const std::string* previous) {
  ByteView raw = in.take(shortest_varint(in));
  std::string path(as_text(raw));
  if (!is_safe_relative(path)) in.corrupt("path is empty, absolute or leaves its folder");
  if (has_private_part(path)) in.corrupt("path goes through .git or .mlx");
  if (is_too_long(path)) in.corrupt("path is longer than 4095 bytes, or a part of it than 255");
  if (previous && !(*previous < path)) in.corrupt("paths are not sorted or occur twice");
  return path;
}

constexpr std::uint64_t kMaxLinkTarget = 4095;  // PATH_MAX without its zero byte

bool is_known_mode(std::uint64_t mode) {
  return mode == kModeFile || mode == kModeExecutable || mode == kModeLink;
}

}  // namespace

bool ends_shard(const std::string& path) {
  Digest digest = Digest::of(path);
  std::uint64_t head = 0;
  for (int i = 0; i < 8; ++i) head = head << 8 | digest.bytes[static_cast<std::size_t>(i)];
  return head % kShardModulus == 0;
}

// All that begin with a path follow it: "a", "a-b", "a/b".
std::optional<std::string> find_path_clash(const std::vector<Entry>& sorted) {
  for (auto at = sorted.begin(); at != sorted.end(); ++at) {
    if (at + 1 == sorted.end() || !(at + 1)->path.starts_with(at->path)) continue;
    const std::string folder = at->path + "/";
    const auto inside = std::lower_bound(at + 1, sorted.end(), folder,
                                         [](const Entry& entry, const std::string& path) { return entry.path < path; });
    if (inside != sorted.end() && inside->path.starts_with(folder)) return at->path;
  }
  return {};
}

std::vector<std::span<const Entry>> cut_shards(std::span<const Entry> sorted) {
  std::vector<std::span<const Entry>> shards;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i + 1 < sorted.size() && !ends_shard(sorted[i].path)) continue;
    shards.push_back(sorted.subspan(begin, i + 1 - begin));
    begin = i + 1;
  }
  return shards;
}

Bytes encode_shard(std::span<const Entry> entries) {
  ByteWriter out;
  write_header(out, kShardMagic);
  out.varint(entries.size());
  for (const Entry& entry : entries) {
    out.sized(as_bytes(entry.path));
    out.varint(entry.mode);
    out.varint(entry.size);
    out.raw(entry.content.bytes);
  }
  return out.take();
}

std::vector<Entry> decode_shard(ByteView bytes) {
  ByteReader in(bytes, "manifest shard");
  read_header(in, kShardMagic);
  std::uint64_t count = read_count(in, kSmallestEntry, "entries");
  if (count == 0) in.corrupt("shard without entries");
  std::vector<Entry> entries;
  entries.reserve(count);
  std::uint64_t total = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    Entry entry;
    entry.path = read_path(in, entries.empty() ? nullptr : &entries.back().path);
    std::uint64_t mode = shortest_varint(in);
    if (!is_known_mode(mode)) in.corrupt(fmt::format("unknown mode {:o}", mode));
    entry.mode = static_cast<std::uint32_t>(mode);
    entry.size = shortest_varint(in);
    if (__builtin_add_overflow(total, entry.size, &total)) in.corrupt("sizes add up to more than 2^64");
    if (mode == kModeLink && entry.size > kMaxLinkTarget) in.corrupt("link to more than a path can say");
    entry.content = Digest::from(in.take(32));
    if (!entries.empty() && ends_shard(entries.back().path)) in.corrupt("shard continues where it must end");
    entries.push_back(std::move(entry));
  }
  in.expect_end();
  return entries;
}

Bytes encode_root(const std::vector<ShardRef>& shards) {
  ByteWriter out;
  write_header(out, kRootMagic);
  out.varint(shards.size());
  for (const ShardRef& shard : shards) {
    out.sized(as_bytes(shard.first_path));
    out.raw(shard.id.bytes);
    out.varint(shard.files);
    out.varint(shard.bytes);
  }
  return out.take();
}

std::vector<ShardRef> decode_root(ByteView bytes) {
  ByteReader in(bytes, "manifest");
  read_header(in, kRootMagic);
  std::uint64_t count = read_count(in, kSmallestShardRef, "shards");
  std::vector<ShardRef> shards;
  shards.reserve(count);
  std::uint64_t files = 0;
  std::uint64_t total = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    ShardRef shard;
    shard.first_path = read_path(in, shards.empty() ? nullptr : &shards.back().first_path);
    shard.id = Digest::from(in.take(32));
    shard.files = shortest_varint(in);
    shard.bytes = shortest_varint(in);
    if (shard.files == 0) in.corrupt("shard without entries");
    if (__builtin_add_overflow(files, shard.files, &files) || __builtin_add_overflow(total, shard.bytes, &total)) {
      in.corrupt("counts add up to more than 2^64");
    }
    shards.push_back(std::move(shard));
  }
  in.expect_end();
  return shards;
}

ManifestSummary summarize(const std::vector<Entry>& sorted) {
  ManifestSummary summary;
  std::vector<ShardRef> shards;
  for (const std::span<const Entry> part : cut_shards(sorted)) {
    ShardRef shard{part.front().path, Digest::of(encode_shard(part)), part.size(), 0};
    for (const Entry& entry : part) shard.bytes += entry.size;
    summary.files += shard.files;
    summary.bytes += shard.bytes;
    shards.push_back(std::move(shard));
  }
  summary.id = Digest::of(encode_root(shards));
  return summary;
}

}  // namespace mlx::store
