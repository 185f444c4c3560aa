// How much of the packs a version takes, and how much of that it shares with others (`mlx show --stat`); and which
// operations the packs hold.
#pragma once

#include <functional>
#include <vector>

#include "store/pack/store.h"

namespace mlx::store {

struct Usage {
  std::uint64_t logical = 0;  // bytes of its files
  std::uint64_t unique = 0;   // bytes of its files, each content counted once
  std::uint64_t stored = 0;   // bytes in packs of every object that it needs, each counted once
  std::uint64_t shared = 0;   // of those, what another version needs too
  std::uint64_t objects = 0;  // how many objects it needs
  std::uint64_t deltas = 0;   // of those, chunks that are stored as deltas
  std::uint64_t missing = 0;  // of those, absent ones (a clone may have fetched a part)
};

// `others`: manifests to compare with; those that are not in the store count as sharing nothing.
Usage usage(const Store& store, const Digest& manifest, const std::vector<Digest>& others);

// The ids of operations in packs, in no order; an id in several packs comes several times. kRefused if they are
// encrypted and no key is unlocked.
void visit_operations(const Store& store, const std::function<void(const Digest&)>& visit);

}  // namespace mlx::store
