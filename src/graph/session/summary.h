// A graph's contents and cost for people (`mlx show`): one row per node with its parameters, output and FLOPs at given
// sizes, and the memory that a session would plan for its activations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/memory.h"
#include "kernels/backend.h"

namespace mlx::graph {

struct LayerRow {
  std::string name, operation;  // "conv1", "conv2d"; "conv2d+relu" if an activation is fused
  Dims output;                  // of its first output
  DType dtype = DType::kF32;
  std::vector<std::string> parameters;  // names of the parameters that it is the first to use
  std::int64_t parameter_count = 0;     // their elements
  double flops = 0;
};

struct Summary {
  std::vector<LayerRow> layers;  // in the order in which they run; without reshapes, which cost nothing
  std::int64_t parameters = 0;   // elements; each tensor counts once
  double flops = 0;
  std::size_t weight_bytes = 0;  // everything that outlives a step: parameters, states, constants
};

// `sizes` by symbol.
Summary summarize(const Graph& graph, const std::vector<std::int64_t>& sizes);

// What a session plans for activations and workspaces at these sizes. Nothing is run, and no weights are needed. The
// kernels are prepared, because they determine their workspace. Throws kUsage if no kernel serves a node.
std::size_t planned_arena(const Graph& graph, const std::vector<std::int64_t>& sizes, kernels::Backend backend);

// The memory of a session of the graph at these sizes.
struct PlannedMemory {
  std::size_t held = 0;    // everything that outlives a step: parameters, states, constants
  std::size_t arena = 0;   // activations and workspaces
  std::size_t packed = 0;  // weights in the kernels' layouts
  std::size_t fed = 0;  // copies of a run's inputs in device memory; staged inputs of the next run need the same again
};
// `training` as in SessionOptions. States with symbolic sizes count at `sizes`.
PlannedMemory planned_memory(const Graph& graph, const std::vector<std::int64_t>& sizes, kernels::Backend backend,
                             bool training, const KeptValues& kept = {});
// The same for an inference session with a pool of `threads` threads; it may cut the batch into tiles (tiles.h).
PlannedMemory inference_memory(const Graph& graph, const std::vector<std::int64_t>& sizes, kernels::Backend backend,
                               int threads);

}  // namespace mlx::graph
