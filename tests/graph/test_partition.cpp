// One model in several parts: the graph of a part, and parts of tensors.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/error.h"
#include "graph/op_def.h"
#include "graph/passes/passes.h"
#include "graph/session/recompute.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

struct Net {
  Graph graph;
  Dim batch = Dim::sym(graph.symbol("batch")), sequence = Dim::sym(graph.symbol("sequence"));
  ValueId linear(const std::string& name, ValueId x, std::int64_t in, std::int64_t out, bool bias) {
    std::vector<ValueId> inputs{x, graph.parameter(name + ".weight", {Dim::of(out), Dim::of(in)})};
    if (bias) inputs.push_back(graph.parameter(name + ".bias", {Dim::of(out)}));
    return graph.add(Op::kLinear, {}, std::move(inputs), name)[0];
  }
};

// Attention with 4 heads of queries and `keys` of keys, 2 wide, then a gated layer.
Graph attention_net(std::int64_t keys, std::int64_t hidden) {
  Net net;
  Graph& g = net.graph;
  ValueId x = g.input("x", DType::kF32, {net.batch, net.sequence, Dim::of(8)});
  Attrs attrs;
  attrs.heads = 4;
  attrs.kv_heads = keys;
  ValueId y = net.linear("qkv", x, 8, 8 + 4 * keys, true);
  y = g.add(Op::kAttention, attrs, {y}, "attention")[0];
  y = net.linear("projection", y, 8, 8, true);
  x = g.add(Op::kAdd, {}, {x, y}, "add")[0];
  y = net.linear("up", x, 8, 2 * hidden, false);
  y = g.add(Op::kSwiGlu, {}, {y}, "swiglu")[0];
  y = net.linear("down", y, hidden, 8, false);
  g.outputs = {net.linear("head", y, 8, 3, false)};
  return std::move(g);
}

std::vector<Op> ops_of(const Graph& graph) {
  std::vector<Op> ops;
  for (const Node& node : graph.nodes) ops.push_back(node.op);
  return ops;
}

Dims dims_of(const Graph& graph, const char* name) {
  const ValueId id = graph.find(name);
  REQUIRE(id != kNone);
  return graph.value(id).dims;
}

std::string refusal(const Graph& graph, int parts) {
  try {
    (void)partition(graph, parts, 0);
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kUsage);
    return error.message;
  }
  return "";
}

Tensor counted(std::int64_t rows, std::int64_t columns) {
  Tensor tensor;
  tensor.shape.rank = 2;
  tensor.shape.dims[0] = rows, tensor.shape.dims[1] = columns;
  tensor.data.resize(tensor.shape.bytes());
  auto* const data = reinterpret_cast<float*>(tensor.data.data());
  for (std::int64_t i = 0; i < tensor.shape.count(); ++i) data[i] = static_cast<float>(i);
  return tensor;
}

}  // namespace

TEST_CASE("partition: layers divide by heads and by halves, everything else is whole") {
  for (const int part : {0, 1}) {
    CAPTURE(part);
    const Partitioned made = partition(attention_net(2, 6), 2, part);
    const Graph& g = made.graph;
    validate(g);
    CHECK(ops_of(g) == std::vector{Op::kReplicate, Op::kLinear, Op::kAttention, Op::kLinear, Op::kAllReduce, Op::kAdd,
                                   Op::kReplicate, Op::kLinear, Op::kSwiGlu, Op::kLinear, Op::kAllReduce, Op::kLinear});
    CHECK(dims_of(g, "qkv.weight") == Dims{Dim::of(8), Dim::of(8)});
    CHECK(dims_of(g, "qkv.bias") == Dims{Dim::of(8)});
    CHECK(dims_of(g, "projection.weight") == Dims{Dim::of(8), Dim::of(4)});
    CHECK(dims_of(g, "up.weight") == Dims{Dim::of(6), Dim::of(8)});
    CHECK(dims_of(g, "down.weight") == Dims{Dim::of(8), Dim::of(3)});
    CHECK(dims_of(g, "head.weight") == Dims{Dim::of(3), Dim::of(8)});
    CHECK((g.find("projection.bias") != kNone) == (part == 0));
    CHECK(made.partition.cut_of("qkv.weight")->sections == std::vector<std::int64_t>{8, 4, 4});
    CHECK(made.partition.cut_of("up.weight.m")->sections == std::vector<std::int64_t>{6, 6});
    CHECK(made.partition.cut_of("down.weight.ema")->axis == 1);
    CHECK(made.partition.cut_of("head.weight") == nullptr);
  }
}

TEST_CASE("partition: what parts do not divide is refused, and a model without such layers") {
  CHECK(refusal(attention_net(2, 6), 3) == "'attention' has 4 heads, which 3 ranks do not divide");
  CHECK(refusal(attention_net(2, 6), 4) == "'attention' has 2 heads of keys and values, which 4 ranks do not divide");
  CHECK(refusal(attention_net(2, 5), 2) == "'up' has 5 outputs, which 2 ranks do not divide");
  Net net;
  ValueId x = net.graph.input("x", DType::kF32, {net.batch, Dim::of(4)});
  const ValueId shared = net.graph.parameter("shared", {Dim::of(4), Dim::of(4)});
  x = net.graph.add(Op::kLinear, {}, {x, shared}, "first")[0];
  net.graph.outputs = {net.graph.add(Op::kLinear, {}, {x, shared}, "second")[0]};
  CHECK(refusal(net.graph, 2) == "the model has no layers that several ranks can divide");
}

TEST_CASE("partition: the parts of a tensor are the whole, section by section") {
  const Tensor whole = counted(6, 4);
  for (const Cut& cut : {Cut{0, {4, 2}}, Cut{1, {2, 2}}, Cut{1, {4}}}) {
    Tensor again = whole;
    std::ranges::fill(again.data, std::uint8_t{0xff});
    for (int part = 0; part < 2; ++part) {
      const Tensor piece = part_of(whole, cut, 2, part);
      CHECK(whole_shape(piece.shape, cut, 2) == whole.shape);
      put_part(again, cut, 2, part, piece.data);
    }
    CHECK(again.data == whole.data);
  }
  const Tensor second = part_of(whole, {0, {4, 2}}, 2, 1);
  const auto* const rows = reinterpret_cast<const float*>(second.data.data());
  CHECK(std::vector(rows, rows + 12) == std::vector<float>{8, 9, 10, 11, 12, 13, 14, 15, 20, 21, 22, 23});
  CHECK_THROWS_AS((void)part_of(whole, {0, {4, 4}}, 2, 0), Error);
  Tensor again = whole;
  CHECK_THROWS_AS(put_part(again, {0, {4, 2}}, 2, 0, ByteView(whole.data).first(4)), Error);
}

TEST_CASE("partition: in training each collective has its conjugate, and the norm is gathered") {
  const Partitioned made = partition(attention_net(4, 6), 2, 1);
  OptimizerSpec optimizer;
  optimizer.clip = 1;
  const TrainingGraph training = to_training(made.graph, optimizer, {}, {}, made.partition);
  validate(training.graph);
  const std::vector<Op> ops = ops_of(training.graph);
  // Forward two sums; backward one, because nothing below the first layer is trained.
  CHECK(std::ranges::count(ops, Op::kAllReduce) == 3);
  CHECK(std::ranges::count(ops, Op::kAllGather) == 1);
  // A rank may recompute what it likes: no other need do the same.
  const TrainingGraph again = recompute(training, {{6, 11}});  // the gated layer, with the sum of its parts
  validate(again.graph);
  CHECK(again.graph.nodes.size() > training.graph.nodes.size());
  CHECK(std::ranges::count(ops_of(again.graph), Op::kAllReduce) == 3);
}
