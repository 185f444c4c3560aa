// Level by level, so that a tree of any size takes a handful of exchanges.
#include "registry/transfer.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "store/transfer.h"

namespace mlx::registry {
namespace {

using store::ObjectKind;
using store::ObjectRef;

constexpr std::size_t kBatch = std::size_t{1} << 14;  // objects asked for in one exchange

void sort_unique(std::vector<ObjectRef>& objects) {
  std::ranges::sort(objects);
  objects.erase(std::unique(objects.begin(), objects.end()), objects.end());
}

template <typename Body>
void in_batches(const std::vector<ObjectRef>& objects, const Body& body) {
  for (std::size_t at = 0; at < objects.size(); at += kBatch) {
    check_interrupted();
    const auto begin = objects.begin() + static_cast<std::ptrdiff_t>(at);
    body(std::vector<ObjectRef>(begin, begin + static_cast<std::ptrdiff_t>(std::min(kBatch, objects.size() - at))));
  }
}

void receive_absent(Transfer& transfer, std::vector<ObjectRef> objects) {
  std::erase_if(objects, [&](const ObjectRef& object) { return transfer.store.has(object.first, object.second); });
  sort_unique(objects);
  in_batches(objects, [&](const std::vector<ObjectRef>& batch) {
    transfer.result.bytes += store::receive_objects(transfer.remote, transfer.store, batch, transfer.progress);
    transfer.result.objects += batch.size();
  });
}

// How the remote holds each blob that is not here at all: as one chunk or as a chunk list.
std::vector<ObjectRef> as_remote_holds(Transfer& transfer, const std::vector<Digest>& blobs, bool required) {
  std::vector<ObjectRef> lists, chunks, wanted;
  for (const Digest& blob : blobs) {
    if (!transfer.store.has_blob(blob)) lists.emplace_back(ObjectKind::kChunkList, blob);
  }
  sort_unique(lists);
  in_batches(lists, [&](const std::vector<ObjectRef>& batch) {
    std::vector<ObjectRef> no_list = store::missing_objects(transfer.remote, batch);
    sort_unique(no_list);
    std::ranges::set_difference(batch, no_list, std::back_inserter(wanted));
    for (const ObjectRef& object : no_list) chunks.emplace_back(ObjectKind::kChunk, object.second);
  });
  in_batches(chunks, [&](const std::vector<ObjectRef>& batch) {
    std::vector<ObjectRef> nowhere = store::missing_objects(transfer.remote, batch);
    sort_unique(nowhere);
    if (required && !nowhere.empty()) {
      throw Error(ErrorKind::kNotFound,
                  fmt::format("the remote does not hold {} of the files that are needed, as {}", nowhere.size(),
                              nowhere.front().second.brief()),
                  "`mlx push` from a clone that has them, or `mlx push --repair` where the remote has lost them");
    }
    std::ranges::set_difference(batch, nowhere, std::back_inserter(wanted));
  });
  return wanted;
}

// What a blob that is here in part still lacks. Pages of long lists are listed before they are read, so each level is
// whole.
void list_absent_parts(const store::Store& store, const Digest& blob, std::vector<ObjectRef>& absent) {
  try {
    store.visit_reachable_blob(blob, [&](ObjectKind kind, const Digest& id) {
      if (!store.has(kind, id)) absent.emplace_back(kind, id);
    });
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kNotFound || absent.empty()) throw;
  }
}

}  // namespace

void send_missing(Transfer& transfer, std::vector<ObjectRef> objects) {
  sort_unique(objects);
  in_batches(objects, [&](const std::vector<ObjectRef>& batch) {
    const std::vector<ObjectRef> lacking = store::missing_objects(transfer.remote, batch);
    if (lacking.empty()) return;
    transfer.result.bytes += store::send_objects(transfer.store, transfer.remote, lacking, transfer.progress);
    transfer.result.objects += lacking.size();
  });
}

void receive_blobs(Transfer& transfer, const std::vector<Digest>& blobs, bool required) {
  receive_absent(transfer, as_remote_holds(transfer, blobs, required));
  // At most two rounds: pages of long chunk lists, then chunks.
  for (;;) {
    std::vector<ObjectRef> absent;
    for (const Digest& blob : blobs) {
      if (transfer.store.has_blob(blob)) {
        std::vector<ObjectRef> parts;
        list_absent_parts(transfer.store, blob, parts);
        absent.insert(absent.end(), parts.begin(), parts.end());
      }
    }
    if (absent.empty()) return;
    const std::uint64_t before = transfer.result.objects;
    receive_absent(transfer, std::move(absent));
    if (transfer.result.objects == before) {
      fail(ErrorKind::kIo, "objects that were received are not in the store");
    }
  }
}

void receive_trees(Transfer& transfer, const std::vector<Digest>& manifests) {
  std::vector<ObjectRef> roots, shards;
  for (const Digest& manifest : manifests) roots.emplace_back(ObjectKind::kManifest, manifest);
  std::erase_if(roots, [&](const ObjectRef& root) { return transfer.store.has(root.first, root.second); });
  sort_unique(roots);
  if (const auto lacking = store::missing_objects(transfer.remote, roots); !lacking.empty()) {
    throw Error(ErrorKind::kNotFound,
                fmt::format("the remote does not hold {} of the versions that are needed, as {}", lacking.size(),
                            lacking.front().second.brief()),
                "`mlx push` from a clone that has them, or `mlx push --repair` where the remote has lost them");
  }
  receive_absent(transfer, roots);
  for (const Digest& manifest : manifests) {
    for (const store::ShardRef& shard : transfer.store.shards(manifest))
      shards.emplace_back(ObjectKind::kShard, shard.id);
  }
  receive_absent(transfer, shards);
}

void receive_objects(Transfer& transfer, std::vector<ObjectRef> objects) {
  receive_absent(transfer, std::move(objects));
}

void receive_manifests(Transfer& transfer, const std::vector<Digest>& manifests) {
  receive_trees(transfer, manifests);
  std::unordered_set<Digest, DigestHash> files;
  for (const Digest& manifest : manifests) {
    for (const store::Entry& entry : transfer.store.entries(manifest)) files.insert(entry.content);
  }
  receive_blobs(transfer, std::vector<Digest>(files.begin(), files.end()), true);
}

}  // namespace mlx::registry
