// Removal of what no reference reaches (mlx-format-pack(5), REMOVING PACKS). The store knows no references: the caller
// gives them, and is asked again at the moment of deletion.
//
// Safe against writers and readers in other processes, and against death at any instant: what is kept always has
// everything that it names.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/progress.h"
#include "store/pack/store.h"

namespace mlx::store {

// What is referred to from outside of the store. What is not here (never fetched) is fine.
struct GcRoots {
  std::vector<Digest> manifests, blobs, operations;
  bool all_operations = false;  // every operation object that is here
};

struct GcOptions {
  std::int64_t grace_seconds = 14 * 24 * 3600;  // packs that are younger stay as they are
  bool remove = false;                          // else only says what would go
  bool thorough = false;  // a pack is written anew for the least of garbage: where it must not stay in any case
  // Files that can be made again, in the order in which they may go: removed where a full disk has no room for the few
  // bytes that a removal writes first.
  std::vector<std::string> spare;
};

struct GcReport {
  std::uint64_t packs = 0, objects = 0, bytes = 0;  // of the store before
  std::uint64_t removed_packs = 0, rewritten_packs = 0;
  std::uint64_t removed_objects = 0, freed_bytes = 0;
  std::uint64_t young_packs = 0, young_bytes = 0;    // within the grace period: not looked into
  std::uint64_t pinned_packs = 0, pinned_bytes = 0;  // in use by another process
  std::uint64_t left_bytes = 0;                      // dead, in packs that hold too little of it to be written anew
};

// `roots` must answer with what is recorded at the moment of the call; it is called under the lock too, and must not
// write to the store. kConflict where another gc runs, kCorrupt where damage hides what is needed.
GcReport collect_garbage(Store& store, const std::function<GcRoots()>& roots, const GcOptions& options,
                         Progress& progress);

}  // namespace mlx::store
