// Running an inference graph depth first: a batch is cut into tiles of a few examples, and each thread takes tile after
// tile through all nodes. What a node writes is still in the caches when the next node reads it, and threads wait for
// each other once a run instead of once a node. Used by sessions on the host.
//
// How many examples a tile has depends on the graph and the batch alone, never on the threads, so that the bits are the
// same for any number of them.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/parallel.h"
#include "graph/bucket.h"
#include "graph/weights.h"

namespace mlx::graph {

// How graphs whose examples do not meet are cut.
struct Tiling {
  int symbol = -1;                             // counts the examples; -1: the graph runs whole
  std::int64_t least = 0, good = 0, most = 0;  // examples of a tile; `good` where there are enough
  std::int64_t tiles = 1;                      // a batch of fewer runs whole

  // Examples of each tile of a batch; 0 where the batch runs whole.
  std::int64_t size(std::int64_t examples) const;
};

// A graph is cut where one symbol is the first size of every value that is computed or fed and its only symbolic one,
// nothing is random, nothing that outlives a step is written, and what layers write is not small beside their weights.
// Batch norms that are folded later change nothing in the answer.
Tiling tiling_of(const Graph& graph);
// Always into tiles of so many examples, where a graph can be cut.
Tiling tiling_of(const Graph& graph, std::int64_t examples);

class Tiles {
 public:
  // A bucket of one tile for each thread that runs them, with its weights packed in the first.
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
  std::vector<std::size_t> fed_bytes_;  // by value: of an example; 0 for what is not fed
  std::vector<Lane> lanes_;
  std::vector<Output> outputs_;
};

}  // namespace mlx::graph
