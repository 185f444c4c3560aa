// Gradients of every trainable operation through graph and session, in ref and on a GPU where there is one, against
// central differences of the loss in ref.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "graph/op_def.h"
#include "graph/passes/passes.h"
#include "sample.h"
#include "tests/kernels/backends.h"

using namespace mlx;
using namespace mlx::graph;

namespace {

struct Problem {
  std::string name;
  Graph graph;                           // forward; logits are the first output
  std::vector<std::int32_t> ids;         // where the input is ids
  double step = 1e-3, tolerance = 2e-2;  // small enough that hardly a relu or maximum changes sides
  void (*pass)(Graph&) = nullptr;        // over the graph with its gradients
  bool collective = false;               // for hosts only
};

// Of a rank alone.
struct OneRank final : Collectives {
  void all_reduce(std::span<float>) override {}
  void all_gather(ByteView own, std::span<std::uint8_t> all) override { std::ranges::copy(own, all.begin()); }
};

std::vector<std::int64_t> sizes_of(const Graph& graph, const Dims& dims) {
  std::vector<std::int64_t> sizes;
  for (const Dim& dim : dims) {
    sizes.push_back(!dim.symbolic() ? dim.size : to_text(graph, dim) == "batch" ? 3 : 5);
  }
  return sizes;
}

std::int64_t count_of(const std::vector<std::int64_t>& sizes) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return count;
}

const std::vector<kernels::Backend>& gradient_backends() {
  static const std::vector<kernels::Backend> backends = [] {
    std::vector<kernels::Backend> all{kernels::backend_named("ref")};
    if (kernels::test::has_gpu()) all.push_back(kernels::cuda_backend());
    return all;
  }();
  return backends;
}

// Compares the gradient of each parameter with (loss(w + h) - loss(w - h)) / 2h at up to twelve of its elements. The
// loss is a float, and its rounding divided by h is the noise: tolerances are relative to the largest gradient of the
// parameter.
void check_gradients(Problem problem, std::set<Op>& seen) {
  CAPTURE(problem.name);
  Graph g = problem.graph;
  for (const Node& node : g.nodes) seen.insert(node.op);
  const ValueId logits = g.outputs[0];
  Dims label_dims = g.value(logits).dims;
  const auto classes = static_cast<std::uint32_t>(label_dims.back().size);
  label_dims.pop_back();
  const ValueId labels = g.input("labels", DType::kS32, label_dims);
  Attrs smoothing;
  smoothing.rate = 0.1f;
  const ValueId loss = g.add(Op::kSoftmaxCrossEntropy, smoothing, {logits, labels}, "loss")[0];
  std::vector<ValueId> parameters;
  for (std::size_t i = 0; i < g.values.size(); ++i) {
    if (g.values[i].role == Role::kParameter) parameters.push_back(static_cast<ValueId>(i));
  }
  g.outputs = {loss};
  for (const ValueId id : differentiate(g, loss, parameters)) {
    REQUIRE(id != kNone);
    g.outputs.push_back(id);
  }
  if (problem.pass) problem.pass(g);
  validate(g);

  const std::vector<std::int64_t> input_sizes = sizes_of(g, g.value(g.inputs[0]).dims),
                                  label_sizes = sizes_of(g, label_dims);
  const std::vector<float> floats = sample::random_floats(static_cast<std::size_t>(count_of(input_sizes)), 77);
  std::vector<std::int32_t> targets;
  for (std::int64_t i = 0; i < count_of(label_sizes); ++i) {
    targets.push_back(static_cast<std::int32_t>(kernels::random_u32(2, 2, 2, static_cast<std::uint64_t>(i)) % classes));
  }
  const void* input = problem.ids.empty() ? static_cast<const void*>(floats.data()) : problem.ids.data();
  const std::vector<Feed> feeds{{g.inputs[0], input, input_sizes}, {labels, targets.data(), label_sizes}};
  Pool pool(1);
  OneRank one;
  SessionOptions options;
  options.training = true;
  options.seed = 5;
  options.collectives = &one;
  std::vector<std::vector<std::vector<float>>> analytic;  // by backend, parameter and element
  for (const kernels::Backend backend : gradient_backends()) {
    if (problem.collective && backend.can().own_memory) continue;
    options.backend = backend;
    Session computed(g, sample::random_tensors(g), options, pool);
    computed.run(feeds, 3);
    analytic.emplace_back();
    for (std::size_t p = 0; p < parameters.size(); ++p)
      analytic.back().push_back(sample::floats(computed.output(g.outputs[p + 1])));
  }
  options.backend = kernels::backend_named("ref");
  Session session(g, sample::random_tensors(g), options, pool);
  const auto loss_at = [&] {
    session.run(feeds, 3);
    return static_cast<double>(sample::floats(session.output(loss))[0]);
  };
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const std::string& name = g.value(parameters[p]).name;
    CAPTURE(name);
    std::vector<float> values(analytic[0][p].size());
    std::memcpy(values.data(), session.state(name), values.size() * sizeof(float));
    double largest = 1e-2;
    for (const float each : analytic[0][p]) largest = std::max(largest, static_cast<double>(std::abs(each)));
    const std::size_t stride = std::max<std::size_t>(1, values.size() / 12);
    for (std::size_t i = 0; i < values.size(); i += stride) {
      const float before = values[i];
      const auto moved = [&](double by) {
        values[i] = static_cast<float>(before + by);
        session.set_state(name, {reinterpret_cast<const std::uint8_t*>(values.data()), values.size() * sizeof(float)});
        return loss_at();
      };
      const double numeric = (moved(problem.step) - moved(-problem.step)) / (2 * problem.step);
      moved(0);
      CAPTURE(i);
      CAPTURE(numeric);
      for (std::size_t backend = 0; backend < analytic.size(); ++backend) {
        const float gradient = analytic[backend][p][i];
        CAPTURE(gradient_backends()[backend].name());
        CAPTURE(gradient);
        CHECK(std::abs(numeric - static_cast<double>(gradient)) <= problem.tolerance * largest);
      }
    }
  }
}

// x[batch,6,6,4] passes through a convolution whose weights show the gradient with respect to what comes behind.
Problem image_problem(const std::string& name, auto&& body) {
  Graph g;
  const Dim batch = Dim::sym(g.symbol("batch"));
  const ValueId images = g.input("images", DType::kF32, {batch, Dim::of(6), Dim::of(6), Dim::of(4)});
  Attrs conv;
  conv.kernel = {3, 3};
  conv.pad = {1, 1, 1, 1};
  const ValueId w = g.parameter("first.weight", {Dim::of(4), Dim::of(3), Dim::of(3), Dim::of(4)});
  ValueId x = g.add(Op::kConv2d, conv, {images, w, g.parameter("first.bias", {Dim::of(4)})}, "first")[0];
  x = body(g, x);
  Dims dims = g.value(x).dims;
  if (dims.size() == 4) {
    const Dim flat = Dim::of(dims[1].size * dims[2].size * dims[3].size);
    x = g.add_shaped(Op::kReshape, {}, {x}, {batch, flat}, "flatten")[0];
    dims = {batch, flat};
  }
  g.outputs = {g.add(Op::kLinear, {}, {x, g.parameter("last.weight", {Dim::of(3), dims.back()})}, "last")[0]};
  return {name, std::move(g), {}};
}

ValueId calculate(Graph& g, kernels::Arithmetic arithmetic, ValueId a, ValueId b) {
  Attrs attrs;
  attrs.arithmetic = arithmetic;
  return g.add(Op::kArithmetic, attrs, {a, b})[0];
}

// Primitive operations on x[batch,6,6,4], each of which shows its gradient in the convolution before it.
std::vector<Problem> primitive_problems() {
  using kernels::Arithmetic;
  using kernels::int_list;
  using kernels::Reduction;
  const auto dims = [](std::initializer_list<std::int64_t> sizes) {
    Dims out;
    for (const std::int64_t size : sizes) out.push_back(Dim::of(size));
    return out;
  };
  std::vector<Problem> problems;
  problems.push_back(image_problem("transposed, cut, put together and gathered", [&](Graph& g, ValueId x) {
    Attrs turn, cut, join, pick;
    turn.axes = int_list({0, 3, 1, 2});
    x = g.add(Op::kTranspose, turn, {x})[0];  // [batch,4,6,6]
    cut.axes = int_list({2, 3});
    cut.starts = int_list({1, -4}), cut.ends = int_list({6, kernels::kToEnd}), cut.steps = int_list({2, 1});
    const ValueId part = g.add(Op::kSlice, cut, {x})[0];  // [batch,4,3,4]
    cut.starts = int_list({0, 0}), cut.ends = int_list({3, 4}), cut.steps = {};
    const ValueId other = g.add(Op::kSlice, cut, {x})[0];
    join.axis = 2;
    x = g.add(Op::kConcat, join, {part, other, part})[0];  // [batch,4,9,4]
    pick.axis = 1;
    const ValueId indices = g.state("indices", dims({2, 2}), DType::kS32);  // all 0
    x = g.add(Op::kGather, pick, {x, indices})[0];                          // [batch,2,2,9,4]
    const Dims flat{g.value(x).dims[0], Dim::of(4), Dim::of(9), Dim::of(4)};
    return g.add_shaped(Op::kReshape, {}, {x}, flat)[0];
  }));
  problems.push_back(image_problem("arithmetic, broadcast on either side", [&](Graph& g, ValueId x) {
    x = calculate(g, Arithmetic::kAdd, x, g.parameter("add", dims({6, 1, 4})));
    x = calculate(g, Arithmetic::kSub, g.parameter("sub", dims({4})), x);
    x = calculate(g, Arithmetic::kMul, x, g.parameter("mul", dims({1, 6, 6, 1})));
    Attrs mean;  // few elements, of which none is close to its minimum's other side
    mean.reduction = Reduction::kMean, mean.axes = int_list({1, 2});
    x = g.add(Op::kReduce, mean, {x})[0];
    return calculate(g, Arithmetic::kMin, x, g.parameter("min", dims({4})));
  }));
  problems.push_back(image_problem("quotients and maxima", [&](Graph& g, ValueId x) {
    const ValueId gamma = g.parameter("gamma", dims({4}));  // gammas are 1
    const ValueId by = calculate(g, Arithmetic::kAdd, gamma, g.parameter("by", dims({6, 1})));
    x = calculate(g, Arithmetic::kDiv, x, by);
    return calculate(g, Arithmetic::kMax, x, g.parameter("max", dims({6, 6, 1})));
  }));
  problems.push_back(image_problem("powers", [&](Graph& g, ValueId x) {
    const ValueId square = calculate(g, Arithmetic::kMul, x, x);
    const ValueId base = calculate(g, Arithmetic::kAdd, square, g.parameter("gamma", dims({4})));
    return calculate(g, Arithmetic::kPow, base, g.parameter("exponent", dims({6, 1})));
  }));
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMean, Reduction::kMax, Reduction::kMin})
    problems.push_back(image_problem("reductions", [&](Graph& g, ValueId x) {
      Attrs keep, drop;
      keep.reduction = drop.reduction = reduction;
      keep.axes = int_list({3}), keep.keep_dims = true;
      drop.axes = int_list({1, 2});
      const ValueId scale = g.add(Op::kReduce, keep, {x})[0];
      x = calculate(g, Arithmetic::kMul, x, scale);
      return g.add(Op::kReduce, drop, {x})[0];  // [batch,4]
    }));
  for (const bool turned_a : {false, true})
    for (const bool turned_b : {false, true})
      problems.push_back(image_problem("stacks of matrices", [&](Graph& g, ValueId x) {
        Attrs attrs;
        attrs.transpose_a = turned_a, attrs.transpose_b = turned_b;
        const std::int64_t terms = turned_a ? 6 : 4;
        const Dims w = dims({6, turned_b ? 5 : terms, turned_b ? terms : 5});
        x = g.add(Op::kMatmul, attrs, {x, g.parameter("w", w)})[0];  // [batch,6,6|4,5]
        const std::int64_t rows = g.value(x).dims[2].size;
        return g.add(Op::kMatmul, {}, {g.parameter("left", dims({1, 3, rows})), x})[0];
      }));
  return problems;
}

}  // namespace

TEST_CASE("gradients of every trainable operation agree with central differences") {
  std::set<Op> seen;
  check_gradients(image_problem("convolution, stride and one-sided padding",
                                [](Graph& g, ValueId x) {
                                  Attrs conv;
                                  conv.kernel = {3, 2};
                                  conv.stride = {2, 1};
                                  conv.pad = {1, 0, 0, 1};
                                  const ValueId w = g.parameter("w", {Dim::of(5), Dim::of(3), Dim::of(2), Dim::of(4)});
                                  return g.add(Op::kConv2d, conv, {x, w}, "conv")[0];
                                }),
                  seen);
  check_gradients(image_problem("grouped convolution with fused relu",
                                [](Graph& g, ValueId x) {
                                  Attrs conv;
                                  conv.kernel = {3, 3};
                                  conv.groups = 2;
                                  conv.activation = Activation::kRelu;
                                  const ValueId w = g.parameter("w", {Dim::of(6), Dim::of(3), Dim::of(3), Dim::of(2)});
                                  return g.add(Op::kConv2d, conv, {x, w, g.parameter("b", {Dim::of(6)})}, "conv")[0];
                                }),
                  seen);
  for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kRelu6}) {
    check_gradients(image_problem("batch norm",
                                  [&](Graph& g, ValueId x) {
                                    const Dims c{Dim::of(4)};
                                    Attrs norm;
                                    norm.activation = activation;
                                    const ValueId gamma = g.parameter("gamma", c), beta = g.parameter("beta", c);
                                    const ValueId mean = g.state("mean", c), variance = g.state("variance", c);
                                    return g.add(Op::kBatchNorm, norm, {x, gamma, beta, mean, variance}, "norm")[0];
                                  }),
                    seen);
    Problem joined = image_problem("batch norm of the rows of ranks", [&](Graph& g, ValueId x) {
      const Dims c{Dim::of(4)};
      Attrs norm;
      norm.activation = activation;
      const ValueId gamma = g.parameter("gamma", c), beta = g.parameter("beta", c);
      const ValueId mean = g.state("mean", c), variance = g.state("variance", c);
      const ValueId y = g.add(Op::kBatchNorm, norm, {x, gamma, beta, mean, variance}, "norm")[0];
      g = synchronise_norms(g, 1);
      return y;
    });
    joined.collective = true;
    check_gradients(std::move(joined), seen);
  }
  check_gradients(image_problem("max pool, overlapping and padded",
                                [](Graph& g, ValueId x) {
                                  Attrs pool;
                                  pool.kernel = {3, 3};
                                  pool.stride = {2, 2};
                                  pool.pad = {1, 1, 1, 1};
                                  return g.add(Op::kMaxPool, pool, {x}, "pool")[0];
                                }),
                  seen);
  check_gradients(
      image_problem("average pool", [](Graph& g, ValueId x) { return g.add(Op::kAvgPool, {}, {x}, "pool")[0]; }), seen);
  check_gradients(image_problem("dropout, relu and gelu, added",
                                [](Graph& g, ValueId x) {
                                  Attrs rate;
                                  rate.rate = 0.4f;
                                  rate.stream = 9;
                                  const ValueId a = g.add(Op::kRelu, {}, {x}, "relu")[0];
                                  const ValueId b = g.add(Op::kGelu, {}, {x}, "gelu")[0];
                                  const ValueId sum = g.add(Op::kAdd, {}, {a, b}, "sum")[0];
                                  return g.add(Op::kDropout, rate, {sum}, "dropout")[0];
                                }),
                  seen);
  check_gradients(image_problem("residual sum with a fused activation, stochastic depth, relu6",
                                [](Graph& g, ValueId x) {
                                  Attrs drop;
                                  drop.rate = 0.3f;
                                  drop.stream = 4;
                                  drop.whole_example = true;
                                  const ValueId branch = g.add(Op::kRelu6, {}, {x}, "relu6")[0];
                                  const ValueId kept = g.add(Op::kDropout, drop, {branch}, "drop")[0];
                                  Attrs relu;
                                  relu.activation = Activation::kRelu;
                                  return g.add(Op::kAdd, relu, {x, kept}, "sum")[0];
                                }),
                  seen);
  check_gradients(image_problem("scaled sum, of two values and of one with itself, with a soft cap",
                                [](Graph& g, ValueId x) {
                                  Attrs factors;
                                  factors.scale_a = 0.5f;
                                  factors.scale_b = -1.5f;
                                  const ValueId b = g.add(Op::kGelu, {}, {x}, "gelu")[0];
                                  const ValueId sum = g.add(Op::kScaledAdd, factors, {x, b}, "sum")[0];
                                  factors.scale_b = 0;
                                  Attrs bound;
                                  bound.cap = 1.5f;
                                  const ValueId scaled = g.add(Op::kScaledAdd, factors, {sum, sum}, "scale")[0];
                                  return g.add(Op::kSoftCap, bound, {scaled}, "cap")[0];
                                }),
                  seen);
  Problem collective = image_problem("what ranks compute together", [](Graph& g, ValueId x) {
    const ValueId whole = g.add(Op::kReplicate, {}, {x}, "whole")[0];
    return g.add(Op::kAllReduce, {}, {g.add(Op::kGelu, {}, {whole}, "gelu")[0]}, "sum")[0];
  });
  collective.collective = true;
  check_gradients(std::move(collective), seen);
  for (const bool also : {false, true}) {
    check_gradients(
        image_problem("norms of sums, which others read too or not",
                      [&](Graph& g, ValueId x) {
                        const Dims c{Dim::of(4)};
                        const ValueId gamma = g.parameter("gamma", c), beta = g.parameter("beta", c);
                        ValueId branch = g.add(Op::kGelu, {}, {x}, "gelu")[0];
                        const auto layer = g.add(Op::kLayerNorm, {}, {x, gamma, beta, branch}, "layer");
                        branch = g.add(Op::kRelu, {}, {layer[0]}, "relu")[0];
                        const ValueId other = also ? layer[3] : x;
                        const auto rms = g.add(Op::kRmsNorm, {}, {other, g.parameter("scale", c), branch}, "rms");
                        return also ? g.add(Op::kAdd, {}, {rms[0], rms[2]}, "sum")[0] : rms[0];
                      }),
        seen);
  }
  for (const Problem& problem : primitive_problems()) check_gradients(problem, seen);
  Problem transformer{"transformer with a tied table", sample::transformer(), {}};
  for (std::uint64_t i = 0; i < 15; ++i)
    transformer.ids.push_back(static_cast<std::int32_t>(kernels::random_u32(1, 1, 1, i) % 11));
  check_gradients(transformer, seen);
  transformer.name += ", gelu in its products";
  transformer.pass = fuse_gelu;
  check_gradients(std::move(transformer), seen);
  Problem llama{"llama block with grouped queries", sample::llama(), {}};
  for (std::uint64_t i = 0; i < 15; ++i)
    llama.ids.push_back(static_cast<std::int32_t>(kernels::random_u32(1, 1, 2, i) % 11));
  check_gradients(std::move(llama), seen);
  for (int op = 0; op < static_cast<int>(Op::kCount); ++op) {
    const Op each = static_cast<Op>(op);
    // linear_groups rounds its input: its gradient is that of what it approximates (test_lora.cpp).
    const bool trained = op_def(each).backward != nullptr && !op_def(each).loss && each != Op::kLinearGroups;
    const std::string name = kernels::name_of(each);  // bug: a message held the address of a `const char*`
    CHECK_MESSAGE((!trained || seen.contains(each)), name << " has a backward that no problem checks");
  }
}
