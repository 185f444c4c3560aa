// Works level by level, so that a tree of any size takes a handful of exchanges.
#include "registry/sync/transfer.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "store/remote/transfer.h"

namespace mlx::registry {
namespace {

using store::FileRef;
using store::ObjectKind;
using store::ObjectRef;

constexpr std::size_t kBatch = std::size_t{1} << 14;  // objects requested in one exchange
constexpr std::size_t kRootsAtOnce = 64;              // manifests whose roots are held in memory

void sort_unique(std::vector<ObjectRef>& objects) {
  std::ranges::sort(objects);
  objects.erase(std::unique(objects.begin(), objects.end()), objects.end());
}

template <typename Body>
void in_batches(const Transfer& transfer, const std::vector<ObjectRef>& objects, std::size_t size, const Body& body) {
  for (std::size_t at = 0; at < objects.size(); at += size) {
    transfer.progress.check_interrupted();
    const auto begin = objects.begin() + static_cast<std::ptrdiff_t>(at);
    body(std::vector<ObjectRef>(begin, begin + static_cast<std::ptrdiff_t>(std::min(size, objects.size() - at))));
  }
}

template <typename Body>
void in_batches(const Transfer& transfer, const std::vector<ObjectRef>& objects, const Body& body) {
  in_batches(transfer, objects, kBatch, body);
}

void receive_absent(Transfer& transfer, std::vector<ObjectRef> objects) {
  std::erase_if(objects, [&](const ObjectRef& object) { return transfer.store.has(object.first, object.second); });
  sort_unique(objects);
  in_batches(transfer, objects, [&](const std::vector<ObjectRef>& batch) {
    transfer.result.bytes += store::receive_objects(transfer.remote, transfer.store, batch, transfer.progress);
    transfer.result.objects += batch.size();
  });
}

struct AsRemoteHolds {
  std::vector<ObjectRef> lists, chunks;
};

// How the remote holds each blob that is completely absent here: as one chunk or as a chunk list.
AsRemoteHolds as_remote_holds(Transfer& transfer, const std::vector<FileRef>& blobs, bool required) {
  AsRemoteHolds held;
  std::vector<ObjectRef> lists, chunks;
  for (const FileRef& blob : blobs) {
    if (!transfer.store.has_blob(blob.id)) lists.emplace_back(ObjectKind::kChunkList, blob.id);
  }
  sort_unique(lists);
  in_batches(transfer, lists, [&](const std::vector<ObjectRef>& batch) {
    std::vector<ObjectRef> no_list = store::missing_objects(transfer.remote, batch);
    sort_unique(no_list);
    std::ranges::set_difference(batch, no_list, std::back_inserter(held.lists));
    for (const ObjectRef& object : no_list) chunks.emplace_back(ObjectKind::kChunk, object.second);
  });
  in_batches(transfer, chunks, [&](const std::vector<ObjectRef>& batch) {
    std::vector<ObjectRef> nowhere = store::missing_objects(transfer.remote, batch);
    sort_unique(nowhere);
    if (required && !nowhere.empty()) {
      throw Error(ErrorKind::kNotFound,
                  fmt::format("the remote lacks {} of the needed files, for example {}", nowhere.size(),
                              nowhere.front().second.brief()),
                  "run `mlx push` in a clone that has them, or `mlx push --repair` if the remote has lost them");
    }
    std::ranges::set_difference(batch, nowhere, std::back_inserter(held.chunks));
  });
  return held;
}

// Receives files that are completely absent here, with their chunks.
void receive_absent_files(Transfer& transfer, const std::vector<FileRef>& blobs, bool required) {
  AsRemoteHolds held = as_remote_holds(transfer, blobs, required);
  receive_absent(transfer, std::move(held.chunks));
  std::unordered_map<Digest, FileRef, DigestHash> by_id;
  for (const FileRef& blob : blobs) by_id.emplace(blob.id, blob);
  std::vector<FileRef> lists;
  lists.reserve(held.lists.size());
  for (const ObjectRef& list : held.lists) lists.push_back(by_id.at(list.second));
  if (lists.empty()) return;
  const store::Received received = store::receive_files(transfer.remote, transfer.store, lists, transfer.progress);
  transfer.result.bytes += received.bytes;
  transfer.result.objects += received.objects;
}

// Lists what a partially present blob lacks. Pages of long chunk lists are listed before they are read, so each level
// is complete.
void list_absent_parts(const store::Store& store, const Digest& blob, std::vector<ObjectRef>& absent) {
  try {
    store.visit_reachable_blob(blob, [&](ObjectKind kind, const Digest& id) {
      if (!store.has(kind, id)) absent.emplace_back(kind, id);
    });
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound || absent.empty()) throw;
  }
}

store::ManifestSummary summary_of(const Digest& manifest, const std::vector<store::ShardRef>& shards) {
  store::ManifestSummary summary{manifest, 0, 0};
  for (const store::ShardRef& shard : shards) {
    summary.files += shard.files;
    summary.bytes += shard.bytes;
  }
  return summary;
}

// Checks files of one chunk, for which there is no list that was compared with the declared size.
void check_sizes(const store::Store& store, const std::vector<FileRef>& files) {
  for (const FileRef& file : files) {
    if (!file.size || !store.has(ObjectKind::kChunk, file.id)) continue;
    const std::uint64_t size = store.open_blob(file.id).size();
    if (size == *file.size) continue;
    throw Error(
        ErrorKind::kCorrupt,
        fmt::format("file {}: has {} bytes, but {} according to its version", file.id.brief(), size, *file.size),
        "mlx did not make this version; its author has to commit it again");
  }
}

}  // namespace

void receive_files(Transfer& transfer, const std::vector<FileRef>& files, bool required) {
  receive_absent_files(transfer, files, required);
  // A blob is partially present because of damage. At most two rounds: pages of long chunk lists, then chunks.
  for (;;) {
    std::vector<ObjectRef> absent;
    for (const FileRef& file : files) {
      if (!transfer.store.has_blob(file.id)) continue;
      std::vector<ObjectRef> parts;
      list_absent_parts(transfer.store, file.id, parts);
      absent.insert(absent.end(), parts.begin(), parts.end());
    }
    if (absent.empty()) break;
    const std::uint64_t before = transfer.result.objects;
    receive_absent(transfer, std::move(absent));
    if (transfer.result.objects == before) {
      fail(ErrorKind::kIo, "objects that were received are not in the store");
    }
  }
  check_sizes(transfer.store, files);
}

void send_missing(Transfer& transfer, std::vector<ObjectRef> objects) {
  sort_unique(objects);
  in_batches(transfer, objects, [&](const std::vector<ObjectRef>& batch) {
    const std::vector<ObjectRef> lacking = store::missing_objects(transfer.remote, batch);
    if (lacking.empty()) return;
    transfer.result.bytes += store::send_objects(transfer.store, transfer.remote, lacking, transfer.progress);
    transfer.result.objects += lacking.size();
  });
}

void receive_blobs(Transfer& transfer, const std::vector<Digest>& blobs, bool required) {
  std::vector<FileRef> files;
  files.reserve(blobs.size());
  for (const Digest& blob : blobs) files.push_back({blob, std::nullopt});
  receive_files(transfer, files, required);
}

void receive_trees(Transfer& transfer, const std::vector<Digest>& manifests) {
  std::vector<ObjectRef> roots, shards;
  for (const Digest& manifest : manifests) roots.emplace_back(ObjectKind::kManifest, manifest);
  std::erase_if(roots, [&](const ObjectRef& root) { return transfer.store.has(root.first, root.second); });
  sort_unique(roots);
  if (const auto lacking = store::missing_objects(transfer.remote, roots); !lacking.empty()) {
    throw Error(ErrorKind::kNotFound,
                fmt::format("the remote lacks {} of the needed versions, for example {}", lacking.size(),
                            lacking.front().second.brief()),
                "run `mlx push` in a clone that has them, or `mlx push --repair` if the remote has lost them");
  }
  const auto name_shards = [&](const std::vector<store::ShardRef>& named) {
    for (const store::ShardRef& shard : named) shards.emplace_back(ObjectKind::kShard, shard.id);
  };
  // A root is stored after its shards, so that a killed fetch leaves no tree without branches.
  const auto bring_shards = [&](const std::vector<Bytes>& arrived) {
    for (const Bytes& root : arrived) {
      const std::vector<store::ShardRef> named = store::decode_root(root);
      if (transfer.check_tree) transfer.check_tree(summary_of(Digest::of(root), named));
      name_shards(named);
    }
    receive_absent(transfer, std::exchange(shards, {}));
    // Reads each tree before anybody else can: this checks its shards against the root and against each other.
    for (const Bytes& root : arrived) (void)transfer.store.entries_of(Digest::of(root), store::decode_root(root));
  };
  in_batches(transfer, roots, kRootsAtOnce, [&](const std::vector<ObjectRef>& batch) {
    transfer.result.bytes +=
        store::receive_behind_parts(transfer.remote, transfer.store, batch, bring_shards, transfer.progress);
    transfer.result.objects += batch.size();
  });
  for (const Digest& manifest : manifests) name_shards(transfer.store.shards(manifest));
  receive_absent(transfer, shards);
}

void receive_objects(Transfer& transfer, std::vector<ObjectRef> objects) {
  receive_absent(transfer, std::move(objects));
}

void receive_manifests(Transfer& transfer, const std::vector<Digest>& manifests) {
  receive_trees(transfer, manifests);
  std::unordered_map<Digest, std::uint64_t, DigestHash> sizes;
  std::vector<FileRef> files;
  for (const Digest& manifest : manifests) {
    for (const store::Entry& entry : transfer.store.entries(manifest)) {
      const auto [known, fresh] = sizes.emplace(entry.content, entry.size);
      if (fresh) files.push_back({entry.content, entry.size});
      if (known->second != entry.size)
        fail(ErrorKind::kCorrupt, "file {}: has {} bytes in one version and {} in another", entry.content.brief(),
             known->second, entry.size);
    }
  }
  receive_files(transfer, files, true);
}

}  // namespace mlx::registry
