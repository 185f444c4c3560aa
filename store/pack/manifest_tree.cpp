// Reading versions out of the store: a manifest's shards and entries, one entry by path, and everything that it stands
// on.
#include <algorithm>

#include "base/error.h"
#include "store/pack/chunk_list.h"
#include "store/pack/store_state.h"

namespace mlx::store {

namespace {

[[noreturn]] void corrupt(const Digest& manifest, std::string_view why) {
  throw Error(ErrorKind::kCorrupt, fmt::format("manifest {}: {}", manifest.brief(), why),
              "`mlx fsck` looks for damage");
}

// One shard, checked against what the root says of it.
std::vector<Entry> read_shard(const Store& store, const Digest& manifest, const ShardRef& shard, bool last) {
  std::vector<Entry> entries = decode_shard(store.read(ObjectKind::kShard, shard.id));
  std::uint64_t bytes = 0;
  for (const Entry& entry : entries) bytes += entry.size;
  if (entries.size() != shard.files || bytes != shard.bytes || entries.front().path != shard.first_path) {
    corrupt(manifest, fmt::format("shard {} is not what the root says", shard.id.brief()));
  }
  if (!last && !ends_shard(entries.back().path)) {
    corrupt(manifest, fmt::format("shard {} ends where it must not", shard.id.brief()));
  }
  return entries;
}

}  // namespace

std::vector<ShardRef> Store::shards(const Digest& manifest) const {
  return decode_root(read(ObjectKind::kManifest, manifest));
}

std::vector<Entry> Store::entries(const Digest& manifest) const {
  return entries_of(manifest, shards(manifest));
}

std::vector<Entry> Store::entries_of(const Digest& manifest, const std::vector<ShardRef>& list) const {
  std::vector<Entry> all;
  for (std::size_t i = 0; i < list.size(); ++i) {
    std::vector<Entry> part = read_shard(*this, manifest, list[i], i + 1 == list.size());
    if (!all.empty() && !(all.back().path < part.front().path)) corrupt(manifest, "its shards overlap");
    all.insert(all.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
  }
  if (auto clash = find_path_clash(all))
    corrupt(manifest, fmt::format("'{}' is a file and also a folder of others", *clash));
  return all;
}

ManifestSummary Store::summarize(const Digest& manifest) const {
  ManifestSummary summary{manifest, 0, 0};
  for (const ShardRef& shard : shards(manifest)) {
    summary.files += shard.files;
    summary.bytes += shard.bytes;
  }
  return summary;
}

std::optional<Entry> Store::find(const Digest& manifest, const std::string& path) const {
  std::vector<ShardRef> list = shards(manifest);
  auto behind = std::upper_bound(list.begin(), list.end(), path, [](const std::string& wanted, const ShardRef& shard) {
    return wanted < shard.first_path;
  });
  if (behind == list.begin()) return {};
  std::vector<Entry> entries = read_shard(*this, manifest, *(behind - 1), behind == list.end());
  auto at = std::lower_bound(entries.begin(), entries.end(), path,
                             [](const Entry& entry, const std::string& wanted) { return entry.path < wanted; });
  if (at == entries.end() || at->path != path) return {};
  return *at;
}

void Store::visit_reachable_blob(const Digest& blob,
                                 const std::function<void(ObjectKind, const Digest&)>& visit) const {
  if (has(ObjectKind::kChunk, blob)) {
    visit(ObjectKind::kChunk, blob);
    return;
  }
  visit(ObjectKind::kChunkList, blob);
  std::string name = fmt::format("chunk list of {}", blob.brief());
  ChunkList list = decode_chunk_list(read(ObjectKind::kChunkList, blob), name);
  for (const ChunkItem& item : list.items) visit(ObjectKind::kChunk, item.id);
  if (list.level == 0) return;
  for (const ChunkItem& page : list.items) {
    ChunkList inner = decode_chunk_list(read(ObjectKind::kChunk, page.id), name);
    if (inner.level != 0) fail(ErrorKind::kCorrupt, "{}: a page of it is not a list of chunks", name);
    for (const ChunkItem& item : inner.items) visit(ObjectKind::kChunk, item.id);
  }
}

bool Store::has_whole_blob(const Digest& id) const {
  if (!has_blob(id)) return false;
  bool whole = true;
  try {
    visit_reachable_blob(id, [&](ObjectKind kind, const Digest& part) { whole = whole && has(kind, part); });
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound && error.kind != ErrorKind::kCorrupt) throw;
    return false;
  }
  return whole;
}

void Store::visit_reachable_manifest(const Digest& manifest,
                                     const std::function<void(ObjectKind, const Digest&)>& visit) const {
  visit(ObjectKind::kManifest, manifest);
  std::vector<ShardRef> list = shards(manifest);
  for (std::size_t i = 0; i < list.size(); ++i) {
    visit(ObjectKind::kShard, list[i].id);
    for (const Entry& entry : read_shard(*this, manifest, list[i], i + 1 == list.size())) {
      visit_reachable_blob(entry.content, visit);
    }
  }
}

}  // namespace mlx::store
