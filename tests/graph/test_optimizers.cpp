// What optimizers add to a graph: which parameters Muon takes and what its direction is, weight decay, unknown names.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "sample.h"
#include "tests/kernels/backends.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

// The operation that updates each parameter.
std::map<std::string, Op> updates_of(const Graph& forward, const std::string& optimizer) {
  std::map<std::string, Op> updates;
  OptimizerSpec spec;
  spec.name = optimizer;
  const TrainingGraph training = to_training(forward, spec, 0.0f);
  validate(training.graph);
  for (const Node& node : training.graph.nodes) {
    if (node.name.ends_with(".update")) updates[training.graph.value(node.inputs[0]).name] = node.op;
  }
  return updates;
}

// One parameter w[out, in] under x[4, in] → logits[4, out], a hidden layer before the head.
Graph two_layers(std::int64_t in, std::int64_t out) {
  Graph g;
  const Dim batch = Dim::sym(g.symbol("batch"));
  const ValueId x = g.input("x", DType::kF32, {batch, Dim::of(in)});
  const ValueId hidden = g.add(Op::kLinear, {}, {x, g.parameter("hidden.weight", {Dim::of(out), Dim::of(in)})}, "h")[0];
  g.outputs = {g.add(Op::kLinear, {}, {hidden, g.parameter("head.weight", {Dim::of(3), Dim::of(out)})}, "logits")[0]};
  return g;
}

struct Matrix {
  std::int64_t rows, columns;
  std::vector<float> data;
};

// How far the smaller product of m with itself is from the identity: the largest difference on the diagonal, and off
// it.
std::pair<double, double> from_identity(const Matrix& m) {
  const bool wide = m.rows <= m.columns;
  const std::int64_t size = wide ? m.rows : m.columns, depth = wide ? m.columns : m.rows;
  const auto at = [&](std::int64_t i, std::int64_t p) {
    return double{m.data[static_cast<std::size_t>(wide ? i * m.columns + p : p * m.columns + i)]};
  };
  double on = 0, off = 0;
  for (std::int64_t i = 0; i < size; ++i) {
    for (std::int64_t j = 0; j < size; ++j) {
      double sum = 0;
      for (std::int64_t p = 0; p < depth; ++p) sum += at(i, p) * at(j, p);
      (i == j ? on : off) = std::max(i == j ? on : off, std::abs(sum - (i == j ? 1.0 : 0.0)));
    }
  }
  return {on, off};
}

}  // namespace

TEST_CASE("muon takes hidden matrices and convolutions; embeddings, head, norms and biases are AdamW's") {
  std::map<std::string, Op> updates = updates_of(sample::cnn(), "muon");
  for (const char* name : {"conv1.weight", "conv2.weight", "dense1.weight"}) CHECK(updates.at(name) == Op::kSgd);
  for (const char* name : {"conv2.bias", "norm1.gamma", "norm1.beta", "dense1.bias", "dense2.weight", "dense2.bias"})
    CHECK(updates.at(name) == Op::kAdamW);
  updates = updates_of(sample::transformer(), "muon");
  for (const char* name : {"qkv.weight", "projection.weight", "up.weight", "down.weight"})
    CHECK(updates.at(name) == Op::kSgd);
  for (const char* name : {"tokens.weight", "positions.weight", "norm1.gamma", "up.bias"})
    CHECK(updates.at(name) == Op::kAdamW);
}

TEST_CASE("muon's step is a nearly orthogonal matrix, wide or tall, whatever the gradient's size, in f32 and bf16") {
  struct Shape {
    std::int64_t in, out;
    Precision precision;
  };
  for (const auto& [in, out, precision] :
       {Shape{40, 12, Precision::kF32}, Shape{12, 40, Precision::kF32}, Shape{16, 16, Precision::kF32},
        Shape{40, 12, Precision::kBF16}, Shape{12, 40, Precision::kBF16}}) {
    OptimizerSpec spec;
    spec.name = "muon";
    const TrainingGraph training = to_training(two_layers(in, out), spec, LossSpec{}, {precision});
    int rounded = 0;
    for (const Node& node : training.graph.nodes)
      rounded += node.op == Op::kCast && node.name.find(".muon.") != std::string::npos;
    CHECK((rounded > 0) == (precision == Precision::kBF16));
    const Tensors before = sample::random_tensors(training.graph);
    Pool pool(1);
    for (const kernels::Backend backend : kernels::test::backends()) {
      SessionOptions options;
      options.training = true;
      options.backend = backend;
      Session session(training.graph, before, options, pool);
      const std::vector<float> x = sample::random_floats(static_cast<std::size_t>(64 * in), 5, 100.0f);
      std::vector<std::int32_t> labels(64);
      for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i % 3);
      const float rate = 1.0f;
      session.run({{training.graph.find("x"), x.data(), {64, in}},
                   {training.labels, labels.data(), {64}},
                   {training.learning_rate, &rate, {1}}});
      // The gradient of a loss over three classes has rank three at most: as many singular values are near one.
      Matrix step{out, in, sample::floats(before.at("hidden.weight").data)};
      const std::vector<float> after = sample::floats(session.tensors().at("hidden.weight").data);
      const double scale = 0.2 * std::sqrt(static_cast<double>(std::max(in, out)));
      double squares = 0;
      for (std::size_t i = 0; i < after.size(); ++i) {
        step.data[i] = static_cast<float>((step.data[i] - after[i]) / scale);
        squares += double{step.data[i]} * step.data[i];
      }
      CAPTURE(in);
      CHECK(squares > 0.4);  // singular values between 0.68 and 1.13 (Jordan et al. 2024), those of the rounding less
      CHECK(squares < 1.3 * static_cast<double>(std::min(in, out)));
      CHECK(from_identity(step).first < 1.3);
    }
  }
}

TEST_CASE("an unknown optimizer is refused with those there are") {
  try {
    updates_of(sample::cnn(), "adam");
    FAIL("nothing was refused");
  } catch (const Error& error) {
    CHECK(error.message.find("sgd, adamw, lion, muon") != std::string::npos);
  }
}
