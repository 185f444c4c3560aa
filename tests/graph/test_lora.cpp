// Low-rank adapters: what they compute before, in and after training, and that merging them gives the same.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/json.h"
#include "sample.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

const std::vector<std::string> kTargets{"qkv.weight", "projection.weight", "down.weight"};

LoraSpec spec_of(std::vector<std::string> targets, float dropout = 0) {
  LoraSpec spec;
  spec.rank = 2;
  spec.alpha = 6;
  spec.dropout = dropout;
  spec.targets = std::move(targets);
  return spec;
}

std::vector<float> run(const Graph& graph, const Tensors& tensors) {
  Pool pool(1);
  SessionOptions options;
  options.backend = kernels::backend_named("ref");
  Session session(graph, tensors, options, pool);
  const std::vector<std::int32_t> ids{1, 4, 2, 9, 0, 3, 3, 10, 5, 5, 7, 8};
  session.run({{graph.find("ids"), ids.data(), {2, 6}}});
  return sample::floats(session.output(graph.outputs[0]));
}

}  // namespace

TEST_CASE("linear layers that alone have their weights can be adapted, but not the one that gives the output") {
  const std::vector<std::string> expected{"qkv.weight", "projection.weight", "up.weight", "down.weight"};
  CHECK(lora_targets(sample::transformer()) == expected);
  const std::vector<std::string> of_cnn = lora_targets(sample::cnn());
  CHECK(of_cnn == std::vector<std::string>{"dense1.weight"});
}

TEST_CASE("an adapter adds alpha/rank times x·Aᵀ·Bᵀ; with B zero it adds nothing") {
  const Graph plain = sample::transformer(11, 8, 6, 0), adapted = add_lora(plain, spec_of(kTargets));
  CHECK_NOTHROW(validate(adapted));
  CHECK(concrete(adapted.value(adapted.find("qkv.weight.lora_a")), {}).dims[0] == 2);
  CHECK(concrete(adapted.value(adapted.find("qkv.weight.lora_b")), {}).dims[0] == 24);
  Tensors tensors = sample::random_tensors(adapted);
  for (const std::string& target : kTargets) std::ranges::fill(tensors.at(target + kLoraB).data, std::uint8_t{0});
  CHECK(run(adapted, tensors) == run(plain, tensors));
}

TEST_CASE("merged, the graph is the one from before, and its outputs are those with adapters") {
  const Graph plain = sample::transformer(11, 8, 6, 0.1f), adapted = add_lora(plain, spec_of(kTargets, 0.2f));
  const Tensors with = sample::random_tensors(adapted);
  Tensors merged = with;
  const Graph again = merge_lora(adapted, merged);
  CHECK(canonical(to_json(again)) == canonical(to_json(plain)));
  CHECK(merged.size() == with.size() - 2 * kTargets.size());
  CHECK(merged.at("up.weight").data == with.at("up.weight").data);
  CHECK(merged.at("qkv.weight").data != with.at("qkv.weight").data);
  const std::vector<float> wanted = run(to_inference(adapted), with);
  CHECK(sample::largest_difference(run(to_inference(again), merged), wanted) < 1e-5);
  CHECK(sample::largest_difference(run(to_inference(plain), with), wanted) > 1e-2);
  Tensors untouched = with;
  CHECK(canonical(to_json(merge_lora(plain, untouched))) == canonical(to_json(plain)));
  merged = with;
  merged.erase("down.weight.lora_b");
  CHECK_THROWS_WITH(merge_lora(adapted, merged), doctest::Contains("down.weight.lora_b"));
}

TEST_CASE("with the rest frozen only adapters are trained, and nothing has a gradient to the base's weights") {
  const Graph adapted = add_lora(sample::transformer(11, 8, 6, 0), spec_of({"qkv.weight"}));
  std::vector<std::string> base;
  for (const Value& value : adapted.values) {
    if (value.role == Role::kParameter && value.name.find(".lora_") == std::string::npos) base.push_back(value.name);
  }
  const TrainingGraph training = to_training(freeze(adapted, base), {}, 0.0f);
  CHECK(std::ranges::count(training.graph.nodes, Op::kSgd, &Node::op) == 2);
  CHECK(std::ranges::count(training.graph.nodes, Op::kLinearBackwardWeights, &Node::op) == 2);
  CHECK(std::ranges::count(training.graph.nodes, Op::kLayerNormBackward, &Node::op) == 2);  // not below the adapter
}
