// Summaries of graphs: shape rules and costs at concrete sizes, and the planner's result.

#include "graph/session/summary.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <unordered_set>

#include "graph/op_def.h"
#include "graph/session/bucket.h"
#include "graph/session/feeding.h"
#include "graph/session/tiles.h"
#include "kernels/block_type.h"

namespace mlx::graph {
namespace {

kernels::Shape shape_at(const Graph& graph, ValueId id, const std::vector<std::int64_t>& sizes) {
  if (id != kNone) return concrete(graph.value(id), sizes);
  kernels::Shape absent;
  absent.rank = -1;
  return absent;
}

// How many weights there are in so many bytes of blocks.
std::int64_t in_blocks(const Attrs& attrs, std::int64_t bytes) {
  std::int64_t rows = 0, column = 0;  // column: bytes of 256 inputs of each row
  for (std::size_t run = 0; run < static_cast<std::size_t>(attrs.blocks.count); ++run) {
    const kernels::BlockType* const type = kernels::find_block_type(attrs.blocks.at[run]);
    rows += attrs.block_rows.at[run];
    if (type) column += attrs.block_rows.at[run] * type->bytes * (kernels::kBlockWeights / type->weights);
  }
  return column > 0 ? rows * (bytes * kernels::kBlockWeights / column) : 0;
}

// Of input `i` of a node, a parameter: weights of four bits are two a byte, and scales of weights are no parameters.
std::int64_t parameters_in(const Node& node, std::size_t i, const kernels::Shape& shape) {
  if (i == 1 && node.attrs.blocks.count > 0) return in_blocks(node.attrs, shape.count());
  if (node.op != Op::kLinearGroups || i == 0) return shape.count();
  return i == 2 ? 0 : shape.dtype == DType::kU8 ? 2 * shape.count() : shape.count();
}

LayerRow row_of(const Graph& graph, const Node& node, const std::vector<std::int64_t>& sizes,
                std::unordered_set<ValueId>& counted) {
  LayerRow row;
  row.name = node.name;
  row.operation = kernels::name_of(node.op);
  if (node.attrs.activation == Activation::kRelu) row.operation += "+relu";
  if (node.attrs.activation == Activation::kGelu) row.operation += "+gelu";
  if (node.attrs.activation == Activation::kRelu6) row.operation += "+relu6";
  row.output = graph.value(node.outputs.at(0)).dims;
  row.dtype = graph.value(node.outputs.at(0)).dtype;
  std::vector<kernels::Shape> inputs, outputs;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId id = node.inputs[i];
    inputs.push_back(shape_at(graph, id, sizes));
    if (id == kNone || graph.value(id).role != Role::kParameter || !counted.insert(id).second) continue;
    row.parameters.push_back(graph.value(id).name);
    row.parameter_count += parameters_in(node, i, inputs.back());
  }
  for (const ValueId id : node.outputs) outputs.push_back(shape_at(graph, id, sizes));
  // Adds absent optional inputs, because cost rules may look at them.
  inputs.resize(std::max(inputs.size(), static_cast<std::size_t>(op_def(node.op).max_inputs)),
                shape_at(graph, kNone, sizes));
  row.flops = cost_of(node, inputs, outputs).flops;
  return row;
}

}  // namespace

Summary summarize(const Graph& graph, const std::vector<std::int64_t>& sizes) {
  Summary summary;
  std::unordered_set<ValueId> counted;
  for (const Node& node : graph.nodes) {
    if (op_def(node.op).view) continue;
    summary.layers.push_back(row_of(graph, node, sizes, counted));
    summary.parameters += summary.layers.back().parameter_count;
    summary.flops += summary.layers.back().flops;
  }
  for (const Value& value : graph.values) {
    if (outlives_step(value.role)) summary.weight_bytes += concrete(value, sizes).bytes();
  }
  return summary;
}

std::size_t planned_arena(const Graph& graph, const std::vector<std::int64_t>& sizes, kernels::Backend backend) {
  return planned_memory(graph, sizes, backend, true).arena;
}

PlannedMemory planned_memory(const Graph& graph, const std::vector<std::int64_t>& sizes, kernels::Backend backend,
                             bool training, const KeptValues& kept) {
  // Kernels may look at constants when they are prepared, but their workspace does not depend on the values. Zeros
  // without backing pages are enough for all of them.
  PlannedMemory planned;
  std::size_t largest = 0;
  for (const Value& value : graph.values) {
    if (!outlives_step(value.role)) continue;
    const std::size_t bytes = concrete(value, sizes).bytes();
    planned.held += bytes;
    largest = std::max(largest, bytes);
  }
  const Memory zeros(std::calloc(largest + 1, 1), {&kernels::host_device()});
  if (!zeros) throw std::bad_alloc();
  std::vector<const void*> constants(graph.values.size(), nullptr);
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const Role role = graph.values[i].role;
    if (role == Role::kConstant || (role == Role::kParameter && !training)) constants[i] = zeros.get();
  }
  const Bucket bucket = make_bucket(graph, sizes, constants, {backend, true, kept});
  planned.arena = bucket.plan.bytes();
  for (const Step& step : bucket.steps) {
    if (step.kernel.plan().packed_input >= 0) planned.packed += step.kernel.plan().packed_bytes;
  }
  if (backend.can().own_memory) planned.fed = feeding_bytes(graph, sizes);
  return planned;
}

PlannedMemory inference_memory(const Graph& graph, const std::vector<std::int64_t>& sizes, kernels::Backend backend,
                               int threads) {
  const Tiling tiling = backend.can().tiles_batches ? tiling_of(graph) : Tiling{};
  const std::int64_t examples = tiling.symbol < 0 ? 0 : sizes[static_cast<std::size_t>(tiling.symbol)];
  const std::int64_t tile = tiling.size(examples);
  if (tile == 0) return planned_memory(graph, sizes, backend, false);
  std::vector<std::int64_t> of_tile = sizes;
  of_tile[static_cast<std::size_t>(tiling.symbol)] = tile;
  PlannedMemory planned = planned_memory(graph, of_tile, backend, false);
  planned.arena *= static_cast<std::size_t>(threads);
  for (const ValueId id : graph.outputs) planned.arena += concrete(graph.value(id), sizes).bytes();
  return planned;
}

}  // namespace mlx::graph
