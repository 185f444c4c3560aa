// Runs an inference graph depth first. A batch is cut into tiles of a few examples, and each thread takes tile after
// tile through all nodes. What a node writes is still in the caches when the next node reads it, and threads
// synchronize once per run instead of once per node. Used by sessions on the host.
//
// The number of examples in a tile depends only on the graph and the batch, never on the threads, so the bits do not
// depend on the number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/parallel.h"
#include "graph/session/bucket.h"
#include "graph/weights.h"

namespace mlx::graph {

// How a graph with independent examples is cut.
struct Tiling {
  int symbol = -1;                             // the number of examples; -1: the graph runs whole
  std::int64_t least = 0, good = 0, most = 0;  // examples per tile; `good` if there are enough
  std::int64_t tiles = 1;                      // a batch of fewer tiles runs whole

  // Examples per tile of a batch; 0 if the batch runs whole.
  std::int64_t size(std::int64_t examples) const;
};

// A graph is cut if one symbol is the first size of every computed or fed value and its only symbolic size, nothing is
// random, nothing that outlives a step is written, and what layers write is not small compared with their weights.
// Batch norms that are folded later do not change the result.
Tiling tiling_of(const Graph& graph);
// Tiles of exactly this many examples, if the graph can be cut.
Tiling tiling_of(const Graph& graph, std::int64_t examples);

class Tiles {
 public:
  // One bucket of one tile for each thread; the weights are packed in the first one.
  Tiles(const Graph& graph, std::vector<Bucket> lanes);

  std::int64_t size() const { return size_; }
  std::size_t arena_bytes() const;

  // `fed` and `held` by value: all examples of inputs, and what outlives a step; null for others. The first lane's
  // weights are packed.
  void run(std::int64_t examples, const std::vector<const void*>& fed, const std::vector<Held>& held, Pool& pool);
  ByteView output(ValueId id) const;  // all examples of an output of the graph, until the next run

 private:
  struct Lane {
    Bucket bucket;
    Memory arena;
  };
  struct Output {
    ValueId id;
    std::size_t example_bytes;
    Bytes bytes;
  };
  struct Run {  // what all lanes share while a batch runs
    std::int64_t examples;
    const std::vector<const void*>& fed;
    const std::vector<Held>& held;
  };

  const void* address(const Lane& lane, ValueId id, std::int64_t first, const Run& run) const;
  void run_tile(Lane& lane, std::int64_t first, const Run& run);
  void keep_outputs(const Lane& lane, std::int64_t first, std::int64_t begin, const Run& run);

  std::int64_t size_ = 0;
  std::vector<std::size_t> fed_bytes_;  // by value: bytes per example; 0 if it is not fed
  std::vector<Lane> lanes_;
  std::vector<Output> outputs_;
};

}  // namespace mlx::graph
