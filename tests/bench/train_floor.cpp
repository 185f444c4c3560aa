#include "tests/bench/train_floor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "base/clock.h"
#include "graph/memory.h"
#include "graph/session/bucket.h"
#include "graph/session/machine_peak.h"
#include "kernels/table.h"

namespace {

using namespace mlx;

std::string key_of(const graph::Graph& graph, const graph::Bucket& bucket, const graph::Step& step) {
  const graph::Node& node = graph.nodes[static_cast<std::size_t>(step.node)];
  const kernels::Attrs& a = node.attrs;
  std::string key = fmt::format("{} {} {}", kernels::name_of(node.op), a.stride[0], a.groups);
  for (const std::vector<graph::ValueId>* ids : {&step.inputs, &step.outputs})
    for (const graph::ValueId id : *ids) {
      if (id == graph::kNone) {
        key += " -";
        continue;
      }
      const kernels::Shape& shape = bucket.shapes[static_cast<std::size_t>(id)];
      key += fmt::format(" {}", kernels::name_of(shape.dtype));
      for (int i = 0; i < shape.rank; ++i) key += fmt::format(".{}", shape.dims[static_cast<std::size_t>(i)]);
    }
  return key;
}

// The best of several runs within a third of a second.
double kernel_seconds(const graph::Bucket& bucket, const graph::Step& step, Pool& pool) {
  std::vector<graph::Memory> memory;
  const auto zeros = [&](std::size_t bytes) {
    memory.push_back(graph::allocate(bytes + 64));
    std::memset(memory.back().get(), 0, bytes);
    return memory.back().get();
  };
  const auto of = [&](graph::ValueId id) {
    return id == graph::kNone ? nullptr : zeros(bucket.shapes[static_cast<std::size_t>(id)].bytes());
  };
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const graph::ValueId id : step.inputs) inputs.push_back(of(id));
  for (const graph::ValueId id : step.outputs) outputs.push_back(of(id));
  const kernels::Plan& plan = step.kernel.plan();
  void* const packed = zeros(plan.packed_bytes);
  if (plan.packed_input >= 0)
    plan.pack(plan.state, inputs[static_cast<std::size_t>(plan.packed_input)], nullptr, packed);
  const kernels::Args args{inputs.data(), outputs.data(), zeros(plan.workspace_bytes), packed, 1, 1};
  double best = 1e9;
  const double begin = seconds_now();
  for (int i = 0; i < 50 && (i < 3 || seconds_now() - begin < 0.3); ++i) {
    const double start = seconds_now();
    for (int phase = 0; phase < plan.phases; ++phase)
      pool.run(plan.slices[static_cast<std::size_t>(phase)],
               [&](std::int64_t slice) { plan.run(plan.state, args, phase, static_cast<int>(slice)); });
    best = std::min(best, seconds_now() - start);
  }
  return best;
}

}  // namespace

double floor_seconds(const graph::Graph& graph, const std::vector<std::int64_t>& sizes, Pool& pool) {
  const graph::MachinePeak peak = graph::measure_peak(kernels::best_backend(), pool);
  const std::vector<const void*> constants(graph.values.size(), nullptr);
  const graph::Bucket bucket = graph::make_bucket(graph, sizes, constants, {kernels::best_backend(), true});
  std::map<std::string, double> known;
  double sum = 0;
  for (const graph::Step& step : bucket.steps) {
    double least = std::max(step.cost.flops / peak.flops, step.cost.bytes / peak.bytes);
    if (step.kernel.kernels() == std::string_view("onednn")) {
      const auto [at, fresh] = known.emplace(key_of(graph, bucket, step), 0.0);
      if (fresh) at->second = kernel_seconds(bucket, step, pool);
      least = std::max(at->second, step.cost.bytes / peak.bytes);
    }
    sum += least;
  }
  return sum;
}
