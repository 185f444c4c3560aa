// The memory plan: nothing alive is overwritten, nothing is wasted.
#include <doctest/doctest.h>

#include <algorithm>

#include "graph/session/bucket.h"
#include "sample.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

Bucket bucket_of(const Graph& graph, const std::vector<std::int64_t>& sizes, bool reuse = true) {
  return make_bucket(graph, sizes, std::vector<const void*>(graph.values.size(), nullptr),
                     {kernels::backend_named("ref"), reuse});
}

// From its first write to its last read, found here by looking at the nodes, not by asking the planner.
struct Life {
  int first = -1, last = -1;
};
std::vector<Life> lives(const Graph& graph) {
  std::vector<Life> life(graph.values.size());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    for (const ValueId id : graph.nodes[i].outputs) {
      if (id == kNone) continue;
      if (life[static_cast<std::size_t>(id)].first < 0) life[static_cast<std::size_t>(id)].first = static_cast<int>(i);
      life[static_cast<std::size_t>(id)].last = static_cast<int>(i);
    }
    for (const ValueId id : graph.nodes[i].inputs) {
      if (id != kNone) life[static_cast<std::size_t>(id)].last = static_cast<int>(i);
    }
  }
  for (const ValueId id : graph.outputs) life[static_cast<std::size_t>(id)].last = static_cast<int>(graph.nodes.size());
  return life;
}

// A view shows another value's memory at any time: follow reshapes back.
ValueId shown(const Graph& graph, ValueId id, const std::vector<Life>& life) {
  while (graph.value(id).role == Role::kActivation) {
    const Node& node = graph.nodes[static_cast<std::size_t>(life[static_cast<std::size_t>(id)].first)];
    if (node.op != Op::kReshape) break;
    id = node.inputs[0];
  }
  return id;
}

// May b, written by a node that reads a for the last time, lie on a? Only where op_list.h says "in place".
bool takes_place(const Graph& graph, ValueId a, ValueId b, const std::vector<Life>& life) {
  const Node& node = graph.nodes[static_cast<std::size_t>(life[static_cast<std::size_t>(b)].first)];
  const bool norm = node.op == Op::kLayerNorm || node.op == Op::kRmsNorm;  // whose last output is the sum
  if (node.outputs[norm ? node.outputs.size() - 1 : 0] != b) return false;
  const auto shows_a = [&](ValueId id) { return id != kNone && shown(graph, id, life) == a; };
  const auto at = static_cast<std::size_t>(std::ranges::find_if(node.inputs, shows_a) - node.inputs.begin());
  switch (node.op) {
    case Op::kRelu:
    case Op::kRelu6:
    case Op::kRope:
    case Op::kRopeBackward:
      return at == 0;
    case Op::kReluBackward:
    case Op::kRelu6Backward:
    case Op::kGeluBackward:
      return at == 1;
    case Op::kAdd:
      return at <= 1;
    case Op::kLayerNorm:
      return node.outputs.size() == 4 && (at == 0 || at == 3);
    case Op::kRmsNorm:
      return node.outputs.size() == 3 && (at == 0 || at == 2);
    case Op::kLayerNormBackward:
      return at == 5;
    case Op::kRmsNormBackward:
      return at == 4;
    default:
      return false;
  }
}

int check_no_overlap(const Graph& graph, const std::vector<std::int64_t>& sizes) {
  const Bucket bucket = bucket_of(graph, sizes);
  // Views live as one with what they show.
  std::vector<Life> life = lives(graph);
  const std::vector<Life> own = life;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (own[i].first < 0) continue;
    Life& root = life[static_cast<std::size_t>(shown(graph, static_cast<ValueId>(i), own))];
    root.last = std::max(root.last, own[i].last);
  }
  int pairs = 0;
  const auto range = [&](std::size_t i) {
    const Block& block = bucket.plan.blocks[static_cast<std::size_t>(bucket.plan.block[i])];
    return std::pair(block.offset, block.offset + bucket.shapes[i].bytes());
  };
  for (std::size_t a = 0; a < graph.values.size(); ++a) {
    if (bucket.plan.block[a] < 0 || shown(graph, static_cast<ValueId>(a), own) != static_cast<ValueId>(a)) continue;
    CHECK(range(a).second <= bucket.plan.arena_bytes);
    CHECK(range(a).first % 64 == 0);
    for (std::size_t b = 0; b < graph.values.size(); ++b) {
      if (a == b || bucket.plan.block[b] < 0 || shown(graph, static_cast<ValueId>(b), own) != static_cast<ValueId>(b))
        continue;
      if (life[a].first > life[b].first || life[a].last < life[b].first) continue;  // b comes to life while a lives
      if (takes_place(graph, static_cast<ValueId>(a), static_cast<ValueId>(b), own) && life[a].last == life[b].first)
        continue;
      ++pairs;
      const bool disjoint = range(a).second <= range(b).first || range(b).second <= range(a).first;
      CHECK_MESSAGE(disjoint, graph.values[a].name << " and " << graph.values[b].name << " are alive and overlap");
    }
    for (std::size_t node = 0; node < graph.nodes.size(); ++node) {
      const int at = bucket.plan.workspace[node];
      if (at < 0 || static_cast<int>(node) < life[a].first || static_cast<int>(node) > life[a].last) continue;
      const Block& block = bucket.plan.blocks[static_cast<std::size_t>(at)];
      const bool disjoint = range(a).second <= block.offset || block.offset + block.bytes <= range(a).first;
      CHECK_MESSAGE(disjoint, graph.values[a].name << " overlaps the workspace of " << graph.nodes[node].name);
    }
  }
  MESSAGE("arena " << bucket.plan.arena_bytes << " bytes, most alive " << bucket.plan.most_alive);
  CHECK(bucket.plan.arena_bytes >= bucket.plan.most_alive);
  CHECK(static_cast<double>(bucket.plan.arena_bytes) <= 1.10 * static_cast<double>(bucket.plan.most_alive));
  CHECK(bucket.plan.arena_bytes < bucket_of(graph, sizes, false).plan.arena_bytes);
  return pairs;
}

}  // namespace

TEST_CASE("no two values that are alive overlap, and the arena is within 10 % of what is alive") {
  CHECK(check_no_overlap(to_training(sample::cnn(), {}, 0.1f).graph, {32}) > 50);
  CHECK(check_no_overlap(to_training(sample::transformer(), {"adamw"}, 0.0f).graph, {4, 6}) > 100);
  CHECK(check_no_overlap(to_inference(sample::transformer()), {4, 6}) > 5);
  for (const Graph& forward : {sample::transformer(), sample::llama()}) {
    const PrecisionSpec gpu{Precision::kF32, sample::gpu()};
    CHECK(check_no_overlap(to_training(forward, {"adamw"}, LossSpec{}, gpu).graph, {4, 6}) > 100);
  }
}

TEST_CASE("the sum that a norm gives takes the place of what is added and dies, its gradient that of the other one") {
  const Graph graph = to_training(sample::llama(), {}, LossSpec{}, {Precision::kF32, sample::gpu()}).graph;
  const Bucket bucket = bucket_of(graph, {4, 6});
  const auto block = [&](ValueId id) { return bucket.plan.block[static_cast<std::size_t>(id)]; };
  CHECK(block(graph.find("b.add1")) == block(graph.find("b.projection")));
  CHECK(block(graph.find("b.norm2")) != block(graph.find("b.projection")));
  int gradients = 0;
  for (const Node& node : graph.nodes) {
    if (node.op != Op::kRmsNormBackward || node.inputs.size() < 5) continue;
    CHECK(block(node.outputs[0]) == block(node.inputs[4]));
    ++gradients;
  }
  CHECK(gradients == 4);
}

TEST_CASE("values reuse the memory of inputs that die, and views need none") {
  const Graph g = to_inference(sample::cnn());
  const Bucket bucket = bucket_of(g, {8});
  const auto block = [&](const char* name) { return bucket.plan.block[static_cast<std::size_t>(g.find(name))]; };
  CHECK(block("relu2") == block("conv2"));
  CHECK(block("flatten") == block("conv2"));
  CHECK(block("relu3") == block("dense1"));
}

TEST_CASE("a value that is read again later keeps its place") {
  Graph g;
  const ValueId x = g.input("x", DType::kF32, {Dim::of(16)});
  const ValueId w = g.parameter("w", {Dim::of(16)});
  const ValueId a = g.add(Op::kAdd, {}, {x, w}, "a")[0];
  const ValueId b = g.add(Op::kRelu, {}, {a}, "b")[0];  // a is read below
  const ValueId view = g.add_shaped(Op::kReshape, {}, {b}, {Dim::of(4), Dim::of(4)}, "view")[0];
  const ValueId c = g.add(Op::kRelu, {}, {b}, "c")[0];  // b is shown by the view below
  const ValueId d = g.add(Op::kAdd, {}, {a, c}, "d")[0];
  const ValueId e = g.add(Op::kRelu, {}, {view}, "e")[0];
  const ValueId f = g.add(Op::kAdd, {}, {d, d}, "f")[0];
  g.outputs = {e, f, d};
  const Bucket bucket = bucket_of(g, {});
  const auto block = [&](ValueId id) { return bucket.plan.block[static_cast<std::size_t>(id)]; };
  CHECK(block(b) != block(a));
  CHECK(block(c) != block(b));
  CHECK(block(view) == block(b));
  CHECK(block(f) != block(d));  // an output is never overwritten
  CHECK(block(x) == -1);
  CHECK(block(w) == -1);
}
