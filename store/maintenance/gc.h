// Removes objects that no reference reaches (mlx-format-pack(5), REMOVING PACKS). The store knows no references: the
// caller gives them, and is asked again at the moment of deletion.
//
// Safe against writers and readers in other processes, and against being killed at any instant: an object that is kept
// always has everything that it names.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/progress.h"
#include "store/pack/store.h"

namespace mlx::store {

// References from outside the store. They may name objects that are not here (never fetched).
struct GcRoots {
  std::vector<Digest> manifests, blobs, operations;
  bool all_operations = false;  // every operation object that is here
};

struct GcOptions {
  std::int64_t grace_seconds = 14 * 24 * 3600;  // packs that are younger stay as they are
  bool remove = false;                          // else it only reports what it would remove
  bool thorough = false;  // rewrites a pack for any garbage in it, however little: nothing erased may stay
  // Files that can be made again, in the order in which they may be removed if a full disk has no room for the few
  // bytes that a removal writes first.
  std::vector<std::string> spare;
};

struct GcReport {
  std::uint64_t packs = 0, objects = 0, bytes = 0;  // of the store before
  std::uint64_t removed_packs = 0, rewritten_packs = 0;
  std::uint64_t removed_objects = 0, freed_bytes = 0;
  std::uint64_t young_packs = 0, young_bytes = 0;    // within the grace period: not examined
  std::uint64_t pinned_packs = 0, pinned_bytes = 0;  // in use by another process
  std::uint64_t left_bytes = 0;                      // dead, in packs with too little garbage to be rewritten
};

// `roots` returns the references recorded at the moment of the call. It is also called under the lock, and must not
// write to the store. kConflict if another gc runs, kCorrupt if damage hides what is needed.
GcReport collect_garbage(Store& store, const std::function<GcRoots()>& roots, const GcOptions& options,
                         Progress& progress);

}  // namespace mlx::store
