// Primitive operations that a device lacks: they run on the host between its own kernels, also where launches would be
// captured, and the profile names where.
#include <doctest/doctest.h>

#include <map>

#include "tests/graph/sample.h"

namespace mlx::graph {
namespace {

// x[batch,4,6] → relu → a product and a mean on the host → gelu on the device.
Graph mixed() {
  Graph g;
  const Dim batch = Dim::sym(g.symbol("batch"));
  ValueId x = g.input("x", DType::kF32, {batch, Dim::of(4), Dim::of(6)});
  x = g.add(Op::kRelu, {}, {x}, "relu")[0];
  x = g.add(Op::kMatmul, {}, {x, g.parameter("w", {Dim::of(6), Dim::of(5)})}, "matmul")[0];
  Attrs mean;
  mean.axes = kernels::int_list({1}), mean.reduction = kernels::Reduction::kMean;
  x = g.add(Op::kReduce, mean, {x}, "mean")[0];
  g.outputs = {g.add(Op::kGelu, {}, {x}, "gelu")[0]};
  return g;
}

}  // namespace

TEST_CASE("a device without a kernel for a primitive operation runs it on the host, and the profile says so") {
  const Graph g = mixed();
  Pool pool(2);
  SessionOptions options;
  options.backend = kernels::backend_named("ref");
  Session expected(g, sample::random_tensors(g), options, pool);
  options.backend = kernels::cuda_backend();
  Session session(g, sample::random_tensors(g), options, pool);
  for (std::uint64_t step = 0; step < 4; ++step) {  // from the second on a device's own launches would be captured
    const std::int64_t batch = step == 3 ? 5 : 2;
    const std::vector<float> x = sample::random_floats(static_cast<std::size_t>(batch * 24), step + 1);
    const std::vector<Feed> feeds{{g.inputs[0], x.data(), {batch, 4, 6}}};
    expected.run(feeds);
    session.run(feeds);
    const std::vector<float> want = sample::floats(expected.output(g.outputs[0])),
                             have = sample::floats(session.output(g.outputs[0]));
    REQUIRE(want.size() == have.size());
    for (std::size_t i = 0; i < want.size(); ++i) CHECK(have[i] == doctest::Approx(want[i]).epsilon(1e-5));
  }
  session.set_profiling(true);
  const std::vector<float> x = sample::random_floats(48, 9);
  session.run({{g.inputs[0], x.data(), {2, 4, 6}}});
  std::map<std::string, std::string> kernel;
  for (const NodeTime& time : session.profile()) kernel[time.name] = time.kernel;
  CHECK(kernel["relu"] == "cuda");
  CHECK(kernel["gelu"] == "cuda");
  CHECK(kernel["matmul"] != "cuda");
  CHECK(kernel["mean"] != "cuda");
}

TEST_CASE("two devices: bug: what the second one leaves to the host was copied from and to the first") {
  const Graph g = mixed();
  Pool pool(2);
  const std::vector<float> x = sample::random_floats(48, 9);
  const auto answer = [&](const kernels::Backend& backend) {
    SessionOptions options;
    options.backend = backend;
    Session session(g, sample::random_tensors(g), options, pool);
    session.run({{g.inputs[0], x.data(), {2, 4, 6}}});
    return sample::floats(session.output(g.outputs[0]));
  };
  CHECK(answer(kernels::cuda_backend(1)) == answer(kernels::cuda_backend(0)));
}

}  // namespace mlx::graph
