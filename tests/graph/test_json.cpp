// Graphs as JSON: round trips to the same bytes, and hostile graphs are refused before anything looks at them.
#include <doctest/doctest.h>

#include "base/error.h"
#include "base/json.h"
#include "graph/session/summary.h"
#include "sample.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

Graph primitives() {
  Graph g;
  const Dim batch = Dim::sym(g.symbol("batch"));
  ValueId x = g.input("x", DType::kF32, {batch, Dim::of(2), Dim::of(4)});
  Attrs turn, cut, pow, most, product;
  turn.axes = kernels::int_list({0, 2, 1});
  x = g.add(Op::kTranspose, turn, {x})[0];
  cut.axes = kernels::int_list({1}), cut.starts = kernels::int_list({-3}),
  cut.ends = kernels::int_list({kernels::kToEnd});
  cut.steps = kernels::int_list({2});
  x = g.add(Op::kSlice, cut, {x})[0];  // [batch,2,2]
  pow.arithmetic = kernels::Arithmetic::kPow;
  x = g.add(Op::kArithmetic, pow, {x, g.parameter("exponent", {Dim::of(2)})})[0];
  most.reduction = kernels::Reduction::kMax, most.axes = kernels::int_list({2}), most.keep_dims = true;
  x = g.add(Op::kReduce, most, {x})[0];
  x = g.add_shaped(Op::kReshape, {}, {x}, {batch, Dim::of(2)})[0];
  product.transpose_b = true;
  g.outputs = {g.add(Op::kMatmul, product, {x, g.parameter("w", {Dim::of(3), Dim::of(2)})}, "logits")[0]};
  return g;
}

}  // namespace

TEST_CASE("graphs round trip, also quantized and training ones") {
  Graph quantized;
  const ValueId x = quantized.input("x", DType::kF32, {Dim::sym(quantized.symbol("batch")), Dim::of(8)});
  Attrs q;
  q.output = DType::kS8;
  q.scale_y = 0.013f;
  const ValueId xq = quantized.add(Op::kQuantize, q, {x}, "quantize")[0];
  Attrs linear;
  linear.scale_x = 0.013f;
  linear.output = DType::kU8;
  linear.activation = Activation::kRelu;
  const ValueId w = quantized.constant("w", {Dim::of(4), Dim::of(8)}, DType::kS8);
  const ValueId scales = quantized.constant("scales", {Dim::of(4)}, DType::kF32);
  quantized.outputs = {quantized.add(Op::kLinear, linear, {xq, w, kNone, scales}, "dense")[0]};

  Graph residual;
  const ValueId image = residual.input("x", DType::kF32, {Dim::sym(residual.symbol("batch")), Dim::of(8)});
  Attrs drop;
  drop.rate = 0.2f;
  drop.whole_example = true;
  const ValueId branch = residual.add(Op::kDropout, drop, {image}, "drop")[0];
  Attrs relu6;
  relu6.activation = Activation::kRelu6;
  residual.outputs = {residual.add(Op::kAdd, relu6, {image, branch}, "sum")[0]};

  for (const Graph& g :
       {sample::cnn(), sample::transformer(), quantized, to_training(sample::cnn(), {}, 0.1f).graph,
        to_training(sample::cnn(), {}, LossSpec{}, {Precision::kF16, sample::gpu()}).graph, to_inference(sample::cnn()),
        residual, to_training(sample::transformer(), {}, LossSpec{}, {Precision::kBF16, sample::gpu()}).graph,
        to_training(sample::llama(), {}, LossSpec{}, {Precision::kF32, sample::gpu()}).graph, primitives(),
        to_training(primitives(), {}, 0.0f).graph}) {
    const std::string text = canonical(to_json(g));
    const Graph back = graph_from_json(parse_json(text, "model.json"), "model.json");
    CHECK(canonical(to_json(back)) == text);
    REQUIRE(back.nodes.size() == g.nodes.size());
    for (std::size_t i = 0; i < g.nodes.size(); ++i) {
      CAPTURE(g.nodes[i].name);
      CHECK(back.nodes[i].attrs == g.nodes[i].attrs);
    }
  }
}

TEST_CASE("attributes are written only if they are not the default, floats in their shortest form") {
  const Json json = to_json(sample::cnn());
  const std::string text = canonical(json);
  CHECK(text.find("\"rate\":0.25") != std::string::npos);
  CHECK(text.find("momentum") == std::string::npos);
  CHECK(text.find("epsilon") == std::string::npos);
}

TEST_CASE("what is wrong is named") {
  const auto refusal = [](auto&& change) {
    Json json = to_json(sample::cnn());
    change(json);
    try {
      graph_from_json(json, "model.json");
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kCorrupt);
      return error.message;
    }
    return std::string("(accepted)");
  };
  const auto has = [](const std::string& text, const char* part) {
    INFO(text);
    return text.find(part) != std::string::npos;
  };
  CHECK(has(refusal([](Json& j) { j["nodes"][0]["op"] = "conv3d"; }), "conv3d"));
  CHECK(has(refusal([](Json& j) { j["nodes"][0]["inputs"][0] = "nobody"; }), "nobody"));
  CHECK(has(refusal([](Json& j) { j["nodes"][0]["attrs"]["kernel"] = {3}; }), "kernel"));
  CHECK(has(refusal([](Json& j) { j["nodes"][0]["attrs"]["kernels"] = 1; }), "kernels"));
  CHECK(has(refusal([](Json& j) { j["nodes"][0]["attrs"]["stride"] = {0, 1}; }), "conv1"));
  CHECK(has(refusal([](Json& j) { j["nodes"] = Json::array_t(32769, j["nodes"][0]); }), "more than 32768 nodes"));
  CHECK(has(refusal([](Json& j) { j["nodes"][0]["inputs"] = Json::array_t(50, j["nodes"][0]["inputs"][0]); }),
            "] and 42 more"));  // not all of their shapes
  CHECK(has(refusal([](Json& j) { j["values"][1]["dims"][0] = -8; }), "conv1.weight"));
  CHECK(has(refusal([](Json& j) { j["values"][1]["dims"][0] = 1099511627776; }), "conv1"));
  CHECK(has(refusal([](Json& j) { j["values"][1]["dims"] = {1099511627776, 1099511627776}; }), "too large"));
  CHECK(has(refusal([](Json& j) { j["values"][1]["name"] = "other"; }), "conv1.weight"));
  CHECK(has(refusal([](Json& j) { j["values"].push_back(Json(j["values"][0])); }), "images"));
  CHECK(has(refusal([](Json& j) { std::swap(j["nodes"][0], j["nodes"][3]); }), "before any node"));
  CHECK(has(refusal([](Json& j) { j["nodes"][1]["outputs"][3] = "norm1.variance"; }), "in place"));
  CHECK(has(refusal([](Json& j) { j["nodes"][2]["outputs"][0] = "conv1"; }), "conv1"));
  CHECK(has(refusal([](Json& j) { j["outputs"][0] = nullptr; }), "output"));
  CHECK(has(refusal([](Json& j) { j["inputs"] = Json::array(); }), "images"));
  CHECK(has(refusal([](Json& j) { j.erase("symbols"); }), "symbols"));
}

TEST_CASE("mutated graphs are refused or valid, never worse") {
  const std::string text = canonical(to_json(to_training(sample::cnn(), {}, 0.1f).graph));
  int accepted = 0, refused = 0;
  for (std::uint64_t round = 0; round < 400; ++round) {
    std::string mutated = text;
    const std::uint32_t edits = 1 + kernels::random_u32(11, round, 0, 0) % 3;
    for (std::uint32_t e = 0; e < edits; ++e) {
      const std::size_t at = kernels::random_u32(11, round, 1, e) % mutated.size();
      const std::size_t from = kernels::random_u32(11, round, 2, e) % text.size();
      switch (kernels::random_u32(11, round, 3, e) % 4) {
        case 0:
          mutated[at] = text[from];
          break;
        case 1:
          mutated[at] = "0123456789-{}[]\",:"[from % 18];
          break;
        case 2:
          mutated.insert(at, text.substr(from, 12));
          break;
        default:
          mutated.erase(at, 1 + from % 9);
      }
    }
    try {
      const Graph g = graph_from_json(parse_json(mutated, "fuzz"), "fuzz");
      CHECK_NOTHROW(validate(g));
      CHECK_NOTHROW(summarize(g, std::vector<std::int64_t>(g.symbols.size(), 1)));
      CHECK_NOTHROW(remove_dead(g));
      ++accepted;
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kCorrupt);
      ++refused;
    }
  }
  CHECK(refused > 200);
  CHECK(accepted + refused == 400);
}
