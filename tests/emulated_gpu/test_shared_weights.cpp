// Weights on a GPU: sessions share one copy of them in its memory, which goes with the last of them.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/graph/sample.h"

namespace mlx::graph {
namespace {

// Logits of four images.
std::vector<float> run(Session& session) {
  const sample::Batch batch = sample::images(4, 5);
  session.run({{session.graph().inputs.at(0), batch.images.data(), {4, 12, 12, 2}}});
  return sample::floats(session.output(session.graph().outputs.at(0)));
}

TEST_CASE("emulated GPU: sessions share one copy of the weights, and a changed one becomes the session's own") {
  const Graph graph = to_inference(sample::cnn());
  const Tensors tensors = sample::random_tensors(graph);
  const auto weights = std::make_shared<const Weights>(tensors);
  const kernels::Device& gpu = kernels::cuda_device();
  Pool pool(1);
  SessionOptions options;
  options.backend = kernels::cuda_backend();
  Session own(graph, tensors, options, pool);
  const std::vector<float> expected = run(own);
  std::size_t made = 0;
  const auto count = [&] {
    ++made;
    return allocate(64, gpu);
  };
  {
    Session one(graph, weights, options, pool), two(graph, weights, options, pool);
    CHECK(run(one) == expected);
    CHECK(run(two) == expected);
    CHECK(one.own_state_bytes() == 0);
    CHECK(weights->times_packed() == 0);
    for (const auto& [name, weight] : weights->all()) CHECK(weight->on(gpu, count));
    CHECK(made == 0);  // all were there already
    const Bytes zeros(4 * 16 * sizeof(float), 0);
    one.set_state("dense2.weight", zeros);
    CHECK(run(one) != expected);
    CHECK(run(two) == expected);
  }
  const auto weight = std::make_shared<const Weight>(kernels::Shape{DType::kF32, 1, {1}},
                                                     ByteView(tensors.at("dense2.bias").data).first(4), Backing{});
  CHECK(weight->on(gpu, count));
  CHECK(weights->find("dense2.bias")->on(gpu, count));
  CHECK(made == 2);  // those of the sessions are gone
}

}  // namespace
}  // namespace mlx::graph
