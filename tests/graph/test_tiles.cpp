// Inference in tiles: the same bits as whole, for any tile, batch and number of threads; which graphs are cut, and how.
#include "graph/session/tiles.h"

#include <doctest/doctest.h>

#include <cstring>

#include "base/error.h"
#include "graph/session/summary.h"
#include "sample.h"
#include "tests/kernels/backends.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

constexpr std::int64_t kPixels = 12 * 12 * 2;

Bytes logits(const Graph& graph, const Tensors& tensors, kernels::Backend backend, std::int64_t count,
             std::int64_t tile, int threads) {
  SessionOptions options;
  options.backend = backend;
  options.tile = tile;
  Pool pool(threads);
  Session session(graph, tensors, options, pool);
  const sample::Batch batch = sample::images(count, 5);
  Bytes out;
  for (int run = 0; run < 2; ++run) {  // planned, and planned already
    session.run({{graph.inputs.at(0), batch.images.data(), {count, 12, 12, 2}}});
    const ByteView view = session.output(graph.outputs.at(0));
    CHECK(session.output_shape(graph.outputs.at(0)).dims[0] == count);
    out.assign(view.begin(), view.end());
  }
  return out;
}

// A layer of `channels` to as many, over images of size² pixels, and as many logits.
Graph layer(std::int64_t size, std::int64_t channels, bool norm = false) {
  Graph g;
  const Dim batch = Dim::sym(g.symbol("batch")), c = Dim::of(channels);
  ValueId x = g.input("images", DType::kF32, {batch, Dim::of(size), Dim::of(size), c});
  Attrs conv;
  conv.kernel = {3, 3};
  conv.pad = {1, 1, 1, 1};
  x = g.add(Op::kConv2d, conv, {x, g.parameter("w", {c, Dim::of(3), Dim::of(3), c})}, "conv")[0];
  if (norm) {
    const ValueId gamma = g.parameter("gamma", {c}), beta = g.parameter("beta", {c});
    x = g.add(Op::kBatchNorm, {}, {x, gamma, beta, g.state("mean", {c}), g.state("variance", {c})}, "norm")[0];
  }
  g.outputs = {g.add(Op::kRelu, {}, {x}, "relu")[0]};
  return g;
}

}  // namespace

TEST_CASE("tiles give the bits of the whole batch at every backend, whatever is left over and however many threads") {
  Tensors tensors = sample::random_tensors(sample::cnn());
  const Graph graph = fuse(to_inference(sample::cnn()), tensors);
  for (const kernels::Backend backend : kernels::test::backends()) {
    for (const std::int64_t count : {1, 5, 16, 23}) {
      const Bytes whole = logits(graph, tensors, backend, count, 0, 2);
      REQUIRE(whole.size() == static_cast<std::size_t>(count) * 4 * sizeof(float));
      for (const std::int64_t tile : {1, 3, 5, 16}) {
        for (const int threads : {1, 3}) {
          const std::string at = fmt::format("{}: {} in tiles of {}, {} threads", backend.name(), count, tile, threads);
          CHECK_MESSAGE(logits(graph, tensors, backend, count, tile, threads) == whole, at);
        }
      }
    }
  }
}

TEST_CASE("a session runs whole what somebody looks at, and in tiles again after it; new weights are used") {
  Tensors tensors = sample::random_tensors(sample::cnn());
  const Graph graph = fuse(to_inference(sample::cnn()), tensors);
  SessionOptions options;
  options.backend = kernels::backend_named("ref");
  options.tile = 2;
  Pool pool(2);
  Session session(graph, tensors, options, pool);
  const sample::Batch batch = sample::images(6, 5);
  const std::vector<Feed> feeds{{graph.inputs.at(0), batch.images.data(), {6, 12, 12, 2}}};
  const auto answer = [&] { return sample::floats(session.output(graph.outputs.at(0))); };
  session.run(feeds);
  const std::vector<float> tiled = answer();
  const std::size_t small = session.arena_bytes();
  std::size_t looked_at = 0;
  RunOptions look;
  look.after = [&](std::size_t) { return ++looked_at > 0; };
  session.run(feeds, look);
  CHECK(looked_at > 0);
  CHECK(answer() == tiled);
  CHECK(session.arena_bytes() > small);
  session.run(feeds);
  CHECK(session.arena_bytes() == small);

  Tensors other = tensors;
  auto& bias = other.at("dense2.bias").data;
  const float moved[4] = {1, 2, 3, 4};
  std::memcpy(bias.data(), moved, sizeof moved);
  session.set_state("dense2.bias", bias);
  session.run(feeds);
  Session fresh(graph, other, options, pool);
  fresh.run(feeds);
  CHECK(answer() == sample::floats(fresh.output(graph.outputs.at(0))));
  CHECK(answer() != tiled);
}

TEST_CASE("what is cut: examples that do not meet, and layers that write more than their weights are") {
  const Tiling large = tiling_of(layer(32, 64));  // 75 MFLOP
  CHECK(large.least == 1);
  CHECK(large.most == 3);
  CHECK(large.size(1) == 0);
  CHECK(large.size(15) == 0);
  CHECK(large.size(16) == 1);
  CHECK(large.size(64) == 2);
  CHECK(large.size(1000) == 3);
  const Tiling bytes{.symbol = 0, .least = 1, .good = 3, .most = 9, .tiles = 16};  // as products of bytes want it
  CHECK(bytes.size(15) == 0);
  CHECK(bytes.size(32) == 2);
  CHECK(bytes.size(64) == 3);
  CHECK(bytes.size(1000) == 9);
  CHECK(tiling_of(layer(16, 32)).least == 14);           // 4.7 MFLOP each
  CHECK(tiling_of(layer(8, 8)).symbol == -1);            // too small to be worth it
  CHECK(tiling_of(sample::transformer()).symbol == -1);  // two sizes are open
  Graph perceptron;
  const Dim batch = Dim::sym(perceptron.symbol("batch")), wide = Dim::of(4096);
  const ValueId x = perceptron.input("x", DType::kF32, {batch, wide});
  perceptron.outputs = {perceptron.add(Op::kLinear, {}, {x, perceptron.parameter("w", {wide, wide})}, "dense")[0]};
  CHECK(tiling_of(perceptron).symbol == -1);  // its weights are what is read
}

TEST_CASE("never cut into tiles, even on request: batch statistics, random numbers, several symbols") {
  CHECK(tiling_of(sample::cnn(0), 2).symbol == -1);     // a batch norm that learns
  CHECK(tiling_of(sample::cnn(0.5f), 2).symbol == -1);  // dropout
  CHECK(tiling_of(sample::transformer(11, 8, 6, 0), 2).symbol == -1);
  CHECK(tiling_of(to_inference(sample::cnn()), 2).symbol == 0);
}

TEST_CASE("a graph is cut alike before and after its batch norms are folded") {
  const Graph inference = to_inference(layer(32, 64, true));
  Tensors tensors = sample::random_tensors(inference);
  const Graph fused = fuse(inference, tensors);
  CHECK(fused.nodes.size() < inference.nodes.size());
  for (const std::int64_t examples : {15, 16, 64, 1000})
    CHECK(tiling_of(inference).size(examples) == tiling_of(fused).size(examples));
  CHECK(tiling_of(fused).size(64) == 2);
}

TEST_CASE("the memory that is planned for tiles is what a session takes") {
  const Graph graph = layer(32, 64);
  const Tensors tensors = sample::random_tensors(graph);
  Pool pool(2);
  SessionOptions options;
  options.backend = kernels::best_backend();
  Session session(graph, tensors, options, pool);
  const std::vector<float> images(std::size_t{16} * 32 * 32 * 64, 0.5f);
  session.run({{graph.inputs.at(0), images.data(), {16, 32, 32, 64}}});
  const std::size_t outputs = session.output(graph.outputs.at(0)).size();
  CHECK(inference_memory(graph, {16}, options.backend, 2).arena == session.arena_bytes() + outputs);
}
