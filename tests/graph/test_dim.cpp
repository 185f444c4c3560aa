// Sizes as expressions: their arithmetic and normal form, how they print and stand in JSON, and graphs whose sizes are
// sums, products or 0.
#include <doctest/doctest.h>

#include <numeric>

#include "base/error.h"
#include "base/json.h"
#include "graph/op_def.h"
#include "sample.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

Graph with_symbols() {
  Graph g;
  g.symbols = {"batch", "sequence", "past"};
  return g;
}

const Dim kBatch = Dim::sym(0), kSequence = Dim::sym(1), kPast = Dim::sym(2);

Json in_json(const Dim& dim) {
  Graph g = with_symbols();
  const ValueId x = g.input("x", DType::kF32, {kBatch});
  g.values.push_back({"y", DType::kF32, {dim}, Role::kActivation});
  (void)x;
  return to_json(g)["values"][1]["dims"][0];
}

Attrs joined(std::int64_t axis) {
  Attrs attrs;
  attrs.axis = axis;
  return attrs;
}

Attrs cut(std::int64_t axis, std::int64_t start, std::int64_t end) {
  Attrs attrs;
  attrs.axes = kernels::int_list({axis}), attrs.starts = kernels::int_list({start}),
  attrs.ends = kernels::int_list({end});
  return attrs;
}

}  // namespace

TEST_CASE("dims: sums and products have one normal form, whatever the order they were made in") {
  CHECK(kBatch * kSequence == kSequence * kBatch);
  CHECK(kBatch + kSequence + Dim::of(2) == Dim::of(2) + kSequence + kBatch);
  CHECK((kBatch + Dim::of(1)) * (kBatch - Dim::of(1)) == kBatch * kBatch - Dim::of(1));
  CHECK(kBatch + kSequence - kBatch == kSequence);
  CHECK(kBatch - kBatch == Dim::of(0));
  CHECK(kBatch * Dim::of(0) == Dim::of(0));
  CHECK(kBatch != kSequence);
  CHECK(!(kBatch - kBatch).symbolic());
  CHECK((kSequence + kPast - kPast).symbol() == 1);
  CHECK((Dim::of(2) * kSequence).symbol() == -1);
  CHECK((kBatch * kPast + kSequence).last_symbol() == 2);
  CHECK(Dim::of(7).last_symbol() == -1);
}

TEST_CASE("dims: bound to sizes they are numbers, and what overflows is no small one") {
  const Dim dim = Dim::of(2) * kBatch * kSequence + kPast - Dim::of(3);
  CHECK(dim.bound({4, 5, 6}) == 43);
  CHECK(Dim::of(9).bound({}) == 9);
  CHECK((kSequence - Dim::of(4)).bound({1, 1, 1}) == -3);
  CHECK((kBatch * kBatch * kBatch).bound({std::int64_t{1} << 40, 1, 1}) >= std::int64_t{1} << 60);
  CHECK_THROWS_AS(dim.bound({4, 0, 6}), Error);
  CHECK_THROWS_AS((void)(kBatch * kBatch * kBatch * kBatch * kBatch), Error);
  const Dim large = Dim::of(std::int64_t{1} << 62);
  CHECK_THROWS_AS((void)(large + large), Error);
  CHECK_THROWS_AS((void)(large * Dim::of(4)), Error);
  Dim many = kBatch;
  CHECK_THROWS_AS((many = many + kSequence + kPast + kBatch * kPast + kBatch * kSequence), Error);
}

TEST_CASE("dims: they print as sums") {
  const Graph g = with_symbols();
  CHECK(to_text(g, kBatch) == "batch");
  CHECK(to_text(g, {Dim::of(3), kBatch * kSequence, kPast + kSequence, kSequence - Dim::of(1)}) ==
        "[3,batch*sequence,sequence+past,sequence-1]");
  CHECK(to_text(g, Dim::of(2) * kBatch - kPast + Dim::of(4)) == "2*batch-past+4");
  CHECK(to_text(g, Dim::of(0) - kPast) == "-past");
}

TEST_CASE("dims: JSON has numbers, names and sums, and refuses what is not in the normal form") {
  CHECK(in_json(Dim::of(0)) == Json(0));
  CHECK(in_json(kBatch) == Json("batch"));
  CHECK(in_json(Dim::of(2) * kBatch * kSequence + Dim::of(1)).dump() == R"([[1],[2,"batch","sequence"]])");
  Graph g = with_symbols();
  const ValueId x = g.input("x", DType::kF32, {kBatch, kSequence}), y = g.input("y", DType::kF32, {kBatch, kPast});
  g.outputs = {g.add(Op::kConcat, joined(1), {x, y}, "both")[0]};
  const Json json = to_json(g);
  CHECK(to_json(graph_from_json(json, "g")).dump() == json.dump());
  const auto refused = [&](const char* dim) {
    Json changed = json;
    changed["values"][2]["dims"][1] = Json::parse(dim);
    CAPTURE(dim);
    try {
      graph_from_json(changed, "g");
      CHECK(false);
    } catch (const Error& error) {
      CHECK(error.kind == ErrorKind::kCorrupt);
    }
  };
  CHECK(json["values"][2]["dims"][1].dump() == R"([[1,"sequence"],[1,"past"]])");
  refused(R"([[1,"past"],[1,"sequence"]])");
  refused(R"([[1,"sequence"],[2,"past"],[-1,"past"]])");
  refused(R"([[0],[1,"sequence"],[1,"past"]])");
  refused(R"([[1,"sequence"],[1,"future"]])");
  refused(R"([[1,"sequence"],[1,"past"],[1,"batch","batch","batch","batch","batch"]])");
  refused(R"([["sequence"],[1,"past"]])");
  refused(R"([[1,"batch"],[1,"batch","sequence"],[1,"batch","past"],[1,"sequence"],[1,"past"]])");
  refused("[]");
  refused("-1");
  refused("1.5");
  Json of_input = json;
  of_input["values"][0]["dims"][1] = Json::parse(R"([[2,"sequence"]])");
  CHECK_THROWS_AS(graph_from_json(of_input, "g"), Error);
}

// [batch,past,2] and [batch,sequence,2] become one, without its first and last position, as rows; sizes 0 among them.
TEST_CASE("dims: a graph of sums, differences and products runs at several sizes, empty ones too") {
  Graph g = with_symbols();
  const ValueId past = g.input("past", DType::kF32, {kBatch, kPast, Dim::of(2)});
  const ValueId now = g.input("now", DType::kF32, {kBatch, kSequence, Dim::of(2)});
  const ValueId both = g.add(Op::kConcat, joined(1), {past, now}, "both")[0];
  const ValueId inside = g.add(Op::kSlice, cut(1, 1, -1), {both}, "inside")[0];
  CHECK(to_text(g, g.value(inside).dims) == "[batch,sequence+past-2,2]");
  const Dim rows = kBatch * (kPast + kSequence - Dim::of(2));
  const ValueId flat = g.add_shaped(Op::kReshape, {}, {inside}, {rows, Dim::of(2)}, "flat")[0];
  const ValueId relu = g.add(Op::kRelu, {}, {flat}, "relu")[0];
  const ValueId nothing = g.add(Op::kSlice, cut(1, 1, 1), {relu}, "nothing")[0];  // [rows,0]
  Attrs over;
  over.axes = kernels::int_list({1});
  g.outputs = {relu, g.add(Op::kReduce, over, {nothing}, "zeros")[0]};
  validate(g);
  CHECK(to_json(graph_from_json(to_json(g), "g")).dump() == to_json(g).dump());
  Pool pool(1);
  Session session(g, Tensors{}, {}, pool);
  const auto run = [&](std::int64_t batch, std::int64_t before, std::int64_t after) {
    std::vector<float> first(static_cast<std::size_t>(batch * before * 2)),
        second(static_cast<std::size_t>(batch * after * 2));
    std::iota(first.begin(), first.end(), 1.0f);
    std::iota(second.begin(), second.end(), 1000.0f);
    session.run({{past, first.data(), {batch, before, 2}}, {now, second.data(), {batch, after, 2}}});
    return sample::floats(session.output(relu));
  };
  CHECK(run(1, 2, 2) == std::vector<float>{3, 4, 1000, 1001});
  CHECK(run(2, 1, 2) == std::vector<float>{1000, 1001, 1004, 1005});
  CHECK(session.output(g.outputs[1]).size() == 2 * sizeof(float));
  CHECK(run(3, 1, 1).empty());
  CHECK_THROWS_AS(concrete(g.value(inside), {1, 1, 0}), Error);
}

TEST_CASE("dims: empty tensors go through core operations") {
  Graph g;
  const ValueId x = g.input("x", DType::kF32, {Dim::of(0), Dim::of(3)});
  const ValueId layer = g.add(Op::kLinear, {}, {x, g.parameter("w", {Dim::of(5), Dim::of(3)})}, "layer")[0];
  g.outputs = {g.add(Op::kGelu, {}, {layer}, "gelu")[0]};
  validate(g);
  Pool pool(1);
  Session session(g, sample::random_tensors(g), {}, pool);
  const float none = 0;
  session.run({{x, &none, {0, 3}}});
  CHECK(session.output(g.outputs[0]).empty());
}

TEST_CASE("dims: shapes of primitive operations that do not fit are refused") {
  Graph g = with_symbols();
  const ValueId x = g.input("x", DType::kF32, {kBatch, Dim::of(4), kSequence});
  const ValueId y = g.input("y", DType::kF32, {kBatch, Dim::of(3), kPast});
  const auto refuses = [&](Op op, const Attrs& attrs, std::vector<ValueId> inputs) {
    CHECK_THROWS_AS(g.add(op, attrs, std::move(inputs), "n"), Error);
  };
  Attrs turn;
  turn.axes = kernels::int_list({0, 1, 1});
  refuses(Op::kTranspose, turn, {x});
  turn.axes = kernels::int_list({0, 1});
  refuses(Op::kTranspose, turn, {x});
  refuses(Op::kConcat, joined(2), {x, y});
  refuses(Op::kConcat, joined(3), {x});
  refuses(Op::kArithmetic, {}, {x, y});
  refuses(Op::kMatmul, {}, {x, y});
  refuses(Op::kGather, joined(0), {x, y});
  Attrs step = cut(2, 0, kernels::kToEnd);
  step.steps = kernels::int_list({2});
  refuses(Op::kSlice, step, {x});
  refuses(Op::kSlice, cut(2, 3, 2), {x});
  refuses(Op::kSlice, cut(5, 0, 1), {x});
  CHECK(g.nodes.empty());
}
