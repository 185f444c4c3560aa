// See tiles.h.
#include "graph/session/tiles.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "graph/op_def.h"
#include "graph/session/summary.h"

namespace mlx::graph {
namespace {

// A tile's work, in floating point operations. At the least, a quarter of a millisecond of one core in f32, the cost of
// calling each kernel once more is small; beyond the most, larger tiles gain nothing.
constexpr double kLeastWork = 64e6, kMostWork = 256e6;
constexpr double kBytesSpeed = 4;  // speed of products of bytes, relative to f32
// With fewer tiles, a larger machine would have idle threads, which a node's slices would use.
constexpr std::int64_t kLeastTiles = 16, kTiles = 32;
// If a tile needed more examples than this, nodes would be limited by reading weights.
constexpr double kMostExamples = 16;

// The only symbol of the graph if examples are independent; -1 otherwise.
int example_symbol(const Graph& graph) {
  int symbol = -1;
  for (const Value& value : graph.values) {
    if (outlives_step(value.role)) {
      if (std::ranges::any_of(value.dims, &Dim::symbolic)) return -1;
      continue;
    }
    if (value.dims.empty() || value.dims[0].symbol() < 0) return -1;
    if (std::ranges::any_of(value.dims.begin() + 1, value.dims.end(), &Dim::symbolic)) return -1;
    if (symbol >= 0 && value.dims[0].symbol() != symbol) return -1;
    symbol = value.dims[0].symbol();
  }
  for (const Node& node : graph.nodes) {
    if (op_def(node.op).random) return -1;
    for (const ValueId id : node.outputs)
      if (id != kNone && outlives_step(graph.value(id).role)) return -1;
  }
  return symbol;
}

bool multiplies_bytes(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [&](const Node& node) {
    if (!op_def(node.op).layer) return false;
    const DType dtype = graph.value(node.inputs[0]).dtype;
    return dtype == DType::kU8 || dtype == DType::kS8;
  });
}

// The bytes that layers with weights read and write per example.
double activation_bytes(const Graph& graph, const std::vector<std::int64_t>& one) {
  double bytes = 0;
  const auto add = [&](ValueId id) { bytes += static_cast<double>(concrete(graph.value(id), one).bytes()); };
  for (const Node& node : graph.nodes) {
    if (!op_def(node.op).layer) continue;
    add(node.inputs[0]);
    add(node.outputs[0]);
  }
  return bytes;
}

}  // namespace

std::int64_t Tiling::size(std::int64_t examples) const {
  if (symbol < 0) return 0;
  const std::int64_t wanted = std::min({std::max(examples / kTiles, good), examples / tiles, most});
  return wanted >= least ? wanted : 0;
}

Tiling tiling_of(const Graph& graph) {
  const int symbol = example_symbol(graph);
  if (symbol < 0) return {};
  const std::vector<std::int64_t> one(graph.symbols.size(), 1);
  const Summary summary = summarize(graph, one);
  const double activations = activation_bytes(graph, one);
  if (summary.flops <= 0 || activations <= 0) return {};
  // Each tile reads all weights, so the bytes of activations must be at least half as many.
  const double least =
      std::max(kLeastWork / summary.flops, static_cast<double>(summary.weight_bytes) / (2 * activations));
  if (least > kMostExamples) return {};
  Tiling tiling;
  tiling.symbol = symbol;
  tiling.least = static_cast<std::int64_t>(std::ceil(least));
  const double speed = multiplies_bytes(graph) ? kBytesSpeed : 1;
  tiling.good = std::max(tiling.least, static_cast<std::int64_t>(std::ceil(speed * kLeastWork / summary.flops)));
  tiling.most = std::max(tiling.good, static_cast<std::int64_t>(speed * kMostWork / summary.flops));
  tiling.tiles = kLeastTiles;
  return tiling;
}

Tiling tiling_of(const Graph& graph, std::int64_t examples) {
  return {.symbol = example_symbol(graph), .least = examples, .good = examples, .most = examples};
}

Tiles::Tiles(const Graph& graph, std::vector<Bucket> lanes) : fed_bytes_(graph.values.size(), 0) {
  for (const ValueId id : graph.inputs) {
    const kernels::Shape& shape = lanes.at(0).shapes[index(id)];
    size_ = shape.dims[0];
    fed_bytes_[index(id)] = shape.bytes() / static_cast<std::size_t>(size_);
  }
  for (const ValueId id : graph.outputs)
    outputs_.push_back({id, lanes.at(0).shapes[index(id)].bytes() / static_cast<std::size_t>(size_), {}});
  for (Bucket& bucket : lanes) {
    Memory arena = allocate(bucket.plan.arena_bytes);
    lanes_.push_back({std::move(bucket), std::move(arena)});
  }
}

std::size_t Tiles::arena_bytes() const {
  return lanes_.size() * lanes_[0].bucket.plan.arena_bytes;
}

void Tiles::run(std::int64_t examples, const std::vector<const void*>& fed, const std::vector<Held>& held, Pool& pool) {
  const Run run{examples, fed, held};
  const std::int64_t tiles = (examples + size_ - 1) / size_;
  for (Output& output : outputs_) output.bytes.resize(static_cast<std::size_t>(examples) * output.example_bytes);
  std::atomic<std::int64_t> next{0};
  const auto take_tiles = [&](std::int64_t index_of_lane) {
    Lane& lane = lanes_[static_cast<std::size_t>(index_of_lane)];
    for (std::int64_t tile = next++; tile < tiles; tile = next++) {
      // The last tile is as large as the others: it begins earlier, and outputs only examples that no other tile does.
      const std::int64_t begin = tile * size_, first = std::min(begin, examples - size_);
      run_tile(lane, first, run);
      keep_outputs(lane, first, begin, run);
    }
  };
  pool.run(std::min(static_cast<std::int64_t>(lanes_.size()), tiles), take_tiles);
}

// The address of a value in the tile whose first example is `first`.
const void* Tiles::address(const Lane& lane, ValueId id, std::int64_t first, const Run& run) const {
  const MemoryPlan& plan = lane.bucket.plan;
  const int block = plan.block[index(id)];
  if (block >= 0)
    return static_cast<const std::uint8_t*>(lane.arena.get()) + plan.blocks[static_cast<std::size_t>(block)].offset;
  const std::size_t root = index(plan.root[index(id)]);
  if (run.held[root].exists()) return run.held[root].data;
  return static_cast<const std::uint8_t*>(run.fed[root]) + static_cast<std::size_t>(first) * fed_bytes_[root];
}

void Tiles::run_tile(Lane& lane, std::int64_t first, const Run& run) {
  const MemoryPlan& plan = lane.bucket.plan;
  const auto pointer = [&](ValueId id) {
    return id == kNone ? nullptr : const_cast<void*>(address(lane, id, first, run));  // nodes write in the arena only
  };
  for (std::size_t i = 0; i < lane.bucket.steps.size(); ++i) {
    Step& step = lane.bucket.steps[i];
    std::ranges::transform(step.inputs, step.input_pointers.begin(), pointer);
    std::ranges::transform(step.outputs, step.output_pointers.begin(), pointer);
    kernels::Args args;
    args.inputs = step.input_pointers.data();
    args.outputs = step.output_pointers.data();
    args.packed = lanes_[0].bucket.steps[i].packed;
    const int workspace = plan.workspace[static_cast<std::size_t>(step.node)];
    if (workspace >= 0)
      args.workspace =
          static_cast<std::uint8_t*>(lane.arena.get()) + plan.blocks[static_cast<std::size_t>(workspace)].offset;
    const kernels::Plan& kernel = step.kernel.plan();
    for (int phase = 0; phase < kernel.phases; ++phase)
      for (int slice = 0; slice < kernel.slices[static_cast<std::size_t>(phase)]; ++slice)
        kernel.run(kernel.state, args, phase, slice);
  }
}

// Copies the outputs of examples from `begin` on, from the tile that starts at `first`.
void Tiles::keep_outputs(const Lane& lane, std::int64_t first, std::int64_t begin, const Run& run) {
  for (Output& output : outputs_) {
    const auto bytes = [&](std::int64_t count) { return static_cast<std::size_t>(count) * output.example_bytes; };
    const auto* const from = static_cast<const std::uint8_t*>(address(lane, output.id, first, run));
    std::memcpy(output.bytes.data() + bytes(begin), from + bytes(begin - first), bytes(first + size_ - begin));
  }
}

ByteView Tiles::output(ValueId id) const {
  const auto found = std::ranges::find(outputs_, id, &Output::id);
  CHECK(found != outputs_.end());
  return found->bytes;
}

}  // namespace mlx::graph
