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

std::vector<std::string> target_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const LoraTarget& target : lora_targets(graph)) names.push_back(target.name);
  return names;
}

// Two linear layers, the first of 64 inputs with weights in two groups of integers, four bits each if `four`.
Graph grouped_layers(bool four) {
  Graph graph;
  const Dim batch = Dim::sym(graph.symbol("batch"));
  const ValueId x = graph.input("x", DType::kF32, {batch, Dim::of(64)});
  const ValueId before = graph.parameter("first.weight", {Dim::of(64), Dim::of(64)});
  const ValueId w =
      graph.parameter("layer.groups", {Dim::of(24), Dim::of(four ? 32 : 64)}, four ? DType::kU8 : DType::kS8);
  const ValueId scales = graph.parameter("layer.groups.scales", {Dim::of(2), Dim::of(24)}, DType::kF16);
  ValueId y = graph.add(Op::kLinear, {}, {x, before}, "first")[0];
  y = graph.add(Op::kLinearGroups, {}, {y, w, scales}, "layer")[0];
  const ValueId head = graph.parameter("head.weight", {Dim::of(5), Dim::of(24)});
  graph.outputs = {graph.add(Op::kLinear, {}, {y, head}, "logits")[0]};
  return graph;
}

}  // namespace

TEST_CASE("linear layers that alone have their weights can be adapted, but not the one that gives the output") {
  const std::vector<std::string> expected{"qkv.weight", "projection.weight", "up.weight", "down.weight"};
  CHECK(target_names(sample::transformer()) == expected);
  CHECK(target_names(sample::cnn()) == std::vector<std::string>{"dense1.weight"});
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

TEST_CASE("a layer with weights in groups has an adapter, named after the weights that they were made of") {
  for (const bool four : {false, true}) {
    const Graph plain = grouped_layers(four);
    const std::vector<LoraTarget> targets = lora_targets(plain);
    REQUIRE(targets.size() == 2);
    CHECK(targets[1].name == "layer.weight");
    CHECK(targets[1].outputs == 24);
    CHECK(targets[1].inputs == 64);
    const Graph adapted = add_lora(plain, spec_of({"first.weight", "layer.weight"}));
    CHECK_NOTHROW(validate(adapted));
    CHECK(concrete(adapted.value(adapted.find("layer.weight.lora_a")), {}).dims[1] == 64);
    // The gradient passes the integers on its way to the first layer's adapter; they themselves have none.
    std::vector<std::string> base;
    for (const Value& value : adapted.values)
      if (value.role == Role::kParameter && value.name.find(".lora_") == std::string::npos) base.push_back(value.name);
    const TrainingGraph training = to_training(freeze(adapted, base), {}, 0.0f);
    CHECK(std::ranges::count(training.graph.nodes, Op::kLinearGroupsBackwardData, &Node::op) == 1);
    CHECK(std::ranges::count(training.graph.nodes, Op::kSgd, &Node::op) == 4);
  }
}
