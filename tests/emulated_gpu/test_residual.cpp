// Training graphs for GPUs, whose norms add what is added around them, on the emulated GPU: the bits are those of the
// same kernels with sums of their own, also where parts are computed again.
#include <doctest/doctest.h>

#include <algorithm>

#include "graph/session/recompute.h"
#include "tests/graph/sample.h"

namespace mlx::graph {
namespace {

Tensors trained(const TrainingGraph& training) {
  return sample::trained_on_ids(training, kernels::cuda_backend());
}

void check_same(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  for (const auto& [name, tensor] : a) CHECK_MESSAGE(tensor.data == b.at(name).data, name);
}

// Without those that look whether what a step leaves is finite, which only a GPU's graph has.
std::ptrdiff_t nodes_of(const TrainingGraph& training) {
  return std::ranges::count_if(training.graph.nodes, [](const Node& node) { return node.op != Op::kNorm; });
}

}  // namespace

TEST_CASE("residual: sums in norms train to the bits of sums of their own") {
  for (const Graph& forward : {sample::transformer(), sample::llama()}) {
    const TrainingGraph apart = to_training(forward, {"adamw"}, LossSpec{}, {Precision::kF32});
    const TrainingGraph fused = to_training(forward, {"adamw"}, LossSpec{}, {Precision::kF32, sample::gpu()});
    REQUIRE(nodes_of(fused) < nodes_of(apart));
    const Tensors expected = trained(apart);
    check_same(trained(fused), expected);
    check_same(trained(recompute(fused, recomputable_parts(fused))), expected);
  }
}

TEST_CASE("residual: what is computed again in bf16 trains to the same bits") {
  for (const Graph& forward : {sample::transformer(11, 16, 6, 0.0f), sample::llama()}) {
    const TrainingGraph fused = to_training(forward, {"adamw"}, LossSpec{}, {Precision::kBF16, sample::gpu()});
    check_same(trained(recompute(fused, recomputable_parts(fused))), trained(fused));
  }
}

}  // namespace mlx::graph
