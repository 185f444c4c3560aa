// Graphs that make their images themselves: what stands in the place of the input, in which precision, and what is
// refused.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "graph/op_def.h"
#include "sample.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

RawImages raw_images(bool mixed) {
  return {"images", "pixels", "changes", "table", mixed, "partner_pixels", "partner_changes", "share"};
}

std::vector<std::string> inputs_of(const Graph& graph) {
  std::vector<std::string> out;
  for (const ValueId id : graph.inputs) {
    const Value& value = graph.value(id);
    out.push_back(value.name + " " + kernels::name_of(value.dtype) + to_text(graph, value.dims));
  }
  return out;
}

TrainingGraph on_gpu(const Graph& forward, Precision precision) {
  return to_training(forward, {}, LossSpec{}, {precision, sample::gpu()});
}

// What reads a value, by name of the node.
std::vector<std::string> readers_of(const Graph& graph, ValueId id) {
  std::vector<std::string> out;
  for (const Node& node : graph.nodes)
    if (std::ranges::find(node.inputs, id) != node.inputs.end()) out.push_back(node.name);
  return out;
}

}  // namespace

TEST_CASE("augment: the images are made by the first node, of inputs that take their place") {
  for (const bool mixed : {false, true}) {
    const Graph forward = sample::cnn(), graph = augment_inside(forward, raw_images(mixed));
    validate(graph);
    std::vector<std::string> expected{"pixels u8[batch,12,12,2]", "changes s32[batch,6]", "table f32[2,256]"};
    if (mixed)
      expected.insert(expected.end(),
                      {"partner_pixels u8[batch,12,12,2]", "partner_changes s32[batch,6]", "share f32[1]"});
    CHECK(inputs_of(graph) == expected);
    REQUIRE(graph.nodes.size() == forward.nodes.size() + 1);
    CHECK(graph.nodes[0].op == Op::kAugment);
    CHECK(graph.nodes[0].inputs == graph.inputs);
    CHECK(graph.nodes[0].outputs == forward.inputs);
    CHECK(to_json(graph_from_json(to_json(graph), "graph")) == to_json(graph));
  }
}

TEST_CASE("augment: images are stored in half precision if only products read them") {
  for (const Precision precision : {Precision::kF32, Precision::kTF32, Precision::kBF16, Precision::kF16}) {
    const bool half = precision == Precision::kBF16 || precision == Precision::kF16;
    const DType type = precision == Precision::kBF16 ? DType::kBF16 : half ? DType::kF16 : DType::kF32;
    const Graph graph = on_gpu(augment_inside(sample::cnn(), raw_images(true)), precision).graph;
    validate(graph);
    const ValueId images = graph.find("images");
    CHECK(graph.value(images).dtype == type);
    CHECK(readers_of(graph, images) == std::vector<std::string>{"conv1", "conv1.backward_weights"});
  }
}

TEST_CASE("augment: what also reads them as f32 keeps them so") {
  Graph forward;
  const Dims dims{Dim::sym(forward.symbol("batch")), Dim::of(6), Dim::of(6), Dim::of(4)};
  const ValueId images = forward.input("images", DType::kF32, dims);
  const ValueId weights = forward.parameter("conv.weight", {Dim::of(4), Dim::of(1), Dim::of(1), Dim::of(4)});
  const ValueId conv = forward.add(Op::kConv2d, {}, {images, weights}, "conv")[0];
  const ValueId sum = forward.add(Op::kAdd, {}, {conv, images}, "sum")[0];
  forward.outputs = forward.add(Op::kAvgPool, {}, {sum}, "pool");
  const Graph graph = on_gpu(augment_inside(forward, raw_images(false)), Precision::kBF16).graph;
  validate(graph);
  CHECK(graph.value(graph.find("images")).dtype == DType::kF32);
  CHECK(readers_of(graph, graph.find("images.bf16")) == std::vector<std::string>{"conv", "conv.backward_weights"});
}

TEST_CASE("augment: a graph without an image input, and inputs that do not fit, are refused") {
  CHECK_THROWS_WITH_AS(augment_inside(sample::transformer(), raw_images(false)), doctest::Contains("no input 'images'"),
                       Error);
  RawImages other = raw_images(false);
  other.images = "conv1.weight";  // there, and no input
  CHECK_THROWS_WITH_AS(augment_inside(sample::cnn(), other), doctest::Contains("no input 'conv1.weight'"), Error);

  const auto refused = [](DType pixels, std::int64_t fields, std::int64_t values, bool share) {
    Graph g;
    const Dim batch = Dim::sym(g.symbol("batch"));
    const Dims dims{batch, Dim::of(4), Dim::of(5), Dim::of(3)}, changes{batch, Dim::of(fields)};
    const ValueId own = g.input("pixels", pixels, dims), drawn = g.input("changes", DType::kS32, changes);
    const ValueId table = g.input("table", DType::kF32, {Dim::of(3), Dim::of(values)});
    const ValueId alone = share ? g.input("share", DType::kF32, {Dim::of(1)}) : kNone;
    try {
      g.add(Op::kAugment, {}, {own, drawn, table, kNone, kNone, alone}, "augment");
    } catch (const Error& error) {
      return error.message;
    }
    return std::string();
  };
  CHECK(refused(DType::kU8, 6, 256, false).empty());
  CHECK(refused(DType::kF32, 6, 256, false).find("input 0 must be u8") != std::string::npos);
  CHECK(refused(DType::kU8, 5, 256, false).find("input 1 must have the shape [batch,6]") != std::string::npos);
  CHECK(refused(DType::kU8, 6, 255, false).find("input 2 must have the shape [3,256]") != std::string::npos);
  CHECK(refused(DType::kU8, 6, 256, true).find("partners have pixels, changes and a share") != std::string::npos);
}
