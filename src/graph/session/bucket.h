// A graph at concrete sizes: shapes, prepared kernels, memory plan and references to packed weights. A session makes
// one for each set of sizes and keeps the most recently used ones.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "graph/memory.h"
#include "graph/op_def.h"
#include "graph/session/planner.h"
#include "kernels/backend.h"
#include "kernels/kernel.h"

namespace mlx::graph {

struct Step {  // a node that does work
  int node = 0;
  bool collective = false;                  // the ranks do it together
  kernels::Prepared kernel;                 // none for a collective
  std::vector<ValueId> inputs, outputs;     // as many as the operation can have, kNone for absent ones
  std::vector<const void*> input_pointers;  // the kernel's inputs; filled before each run
  std::vector<void*> output_pointers;
  // The packed weights that the kernel reads: in this step's memory or shared (weights.h); null if it reads none.
  const void* packed = nullptr;
  Memory own_packed;
  std::shared_ptr<const void> shared_packed;
  std::uint64_t packed_version = 0;  // of the weights and scales that `packed` was made from; 0: never
  Cost cost;
};

struct Bucket {
  std::vector<std::int64_t> symbol_sizes;
  std::vector<kernels::Shape> shapes;  // by value
  std::vector<Step> steps;
  MemoryPlan plan;
  bool visits_host = false;  // on a device: a step runs on the host, so that launches cannot be captured
  std::uint64_t last_use = 0;
};

struct BucketOptions {
  kernels::Backend backend;
  bool reuse_memory;
  KeptValues kept{};
  std::vector<kernels::DType> stored{};  // by value: Problem::stored; empty if nothing is known of it
};

// `constants` by value: data that will not change as long as the bucket lives, null for the others. Throws kUsage
// naming the node where no kernel serves it.
Bucket make_bucket(const Graph& graph, const std::vector<std::int64_t>& symbol_sizes,
                   const std::vector<const void*>& constants, const BucketOptions& options);

// How many steps from `first` on, up to node `last`, can be run as one. Their kernel must take several, and none may
// write what another reads or writes. At least 1.
std::size_t steps_together(const Bucket& bucket, std::size_t first, std::size_t last);

}  // namespace mlx::graph
