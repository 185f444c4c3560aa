// The reference gradients against central differences of the reference forward, of a random linear function of its
// outputs summed in float64. Inputs and outputs are f32, so that a difference over 2h carries an error of about 1e-7 /
// h; with h near 1e-2 that and the cut-off h² term stay below the tolerance of 2e-3 of the gradients' size.
#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "harness.h"

namespace mlx::kernels::test {
namespace {

std::vector<Tensor> run_ref(const Case& test) {
  for (const Kernel& kernel : ref_kernels()) {
    Prepared prepared;
    std::string damage;
    if (kernel.op == test.op && prepare_case(kernel, test, prepared))
      return run_case(prepared.plan(), test, {}, damage);
  }
  return {};
}

double dot(const Tensor& a, const Tensor& b) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < a.shape.count(); ++i) sum += double{a.data<float>()[i]} * b.data<float>()[i];
  return sum;
}

// d(weights · output 0)/d(input `which`) by central differences.
std::vector<double> numeric(Case test, std::size_t which, const Tensor& weights, float h) {
  std::vector<double> gradient;
  for (std::int64_t i = 0; i < test.inputs[which].shape.count(); ++i) {
    float& x = test.inputs[which].data<float>()[i];
    const float old = x;
    x = old + h;
    const double up = x, high = dot(run_ref(test)[0], weights);
    x = old - h;
    const double down = x, low = dot(run_ref(test)[0], weights);
    x = old;
    gradient.push_back((high - low) / (up - down));
  }
  return gradient;
}

void check_gradient(const std::string& what, const Case& forward, std::size_t which, const Tensor& weights,
                    const Tensor& got, float h = 1e-2f) {
  const std::vector<double> expected = numeric(forward, which, weights, h);
  REQUIRE(static_cast<std::int64_t>(expected.size()) == got.shape.count());
  double squares = 0.0;
  for (const double value : expected) squares += value * value;
  const double size = std::sqrt(squares / static_cast<double>(expected.size())) + 1e-6;
  CHECK(size > 1e-4);  // a gradient that is zero everywhere would prove nothing
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK_MESSAGE(std::fabs(got.data<float>()[i] - expected[i]) < 2e-3 * (size + std::fabs(expected[i])),
                  what << ", element " << i << ": " << got.data<float>()[i] << " instead of " << expected[i]);
}

Tensor unit_random(std::vector<std::int64_t> dims, std::uint64_t seed) {
  return uniform(std::move(dims), -1.0f, 1.0f, seed);
}

}  // namespace

TEST_CASE("gradients: linear") {
  const Tensor x = unit_random({5, 7}, 1), w = unit_random({4, 7}, 2), b = unit_random({4}, 3),
               dy = unit_random({5, 4}, 4);
  const Case forward{"", Op::kLinear, {}, {x, w, b}, {f32({5, 4})}, {}, {}};
  const auto data = run_ref({"", Op::kLinearBackwardData, {}, {dy, w}, {x.shape}, {}, {}});
  const auto weights = run_ref({"", Op::kLinearBackwardWeights, {}, {x, dy}, {w.shape, b.shape}, {}, {}});
  check_gradient("dx", forward, 0, dy, data[0]);
  check_gradient("dw", forward, 1, dy, weights[0]);
  check_gradient("db", forward, 2, dy, weights[1]);
}

TEST_CASE("gradients: linear with weights in groups, of the numbers that the integers stand for") {
  constexpr std::int64_t kInputs = 64, kOutputs = 9, kGroup = 32;
  const Tensor dy = unit_random({5, kOutputs}, 1), single = uniform({kInputs / kGroup, kOutputs}, -0.1f, 0.1f, 2);
  const Tensor scales = stored(single, DType::kF16);
  for (const bool four : {false, true}) {
    const Tensor w = four ? integers(DType::kU8, {kOutputs, kInputs / 2}, 0, 255, 3)
                          : integers(DType::kS8, {kOutputs, kInputs}, -128, 127, 3);
    Tensor dense = unit_random({kOutputs, kInputs}, 4);
    for (std::int64_t i = 0; i < dense.shape.count(); ++i) {
      const std::uint8_t pair = w.data<std::uint8_t>()[four ? i / 2 : i];
      const int integer = four ? (i % 2 == 0 ? pair & 15 : pair >> 4) - 8 : static_cast<std::int8_t>(pair);
      const F16 scale = scales.data<F16>()[i % kInputs / kGroup * kOutputs + i / kInputs];
      dense.data<float>()[i] = static_cast<float>(integer) * widen(scale);
    }
    const Shape dx = f32({5, kInputs});
    const Tensor got = run_ref({"", Op::kLinearGroupsBackwardData, {}, {dy, w, scales}, {dx}, {}, {}})[0];
    const Tensor wanted = run_ref({"", Op::kLinearBackwardData, {}, {dy, dense}, {dx}, {}, {}})[0];
    for (std::int64_t i = 0; i < got.shape.count(); ++i)
      CHECK(got.data<float>()[i] == doctest::Approx(wanted.data<float>()[i]).epsilon(1e-5));
  }
}

TEST_CASE("gradients: linear after gelu") {
  // y = gelu(x) · wᵀ, whose gradient of x is taken at once.
  const Tensor x = uniform({5, 7}, -3.0f, 3.0f, 1), w = unit_random({4, 7}, 2), dy = unit_random({5, 4}, 4);
  Attrs gelu;
  gelu.activation = Activation::kGelu;
  const Tensor dx = run_ref({"", Op::kLinearBackwardData, gelu, {dy, w, x}, {x.shape}, {}, {}})[0];
  // d(dy · y)/dx = d(gelu(x) · (dy · w))/dx
  const Tensor plain = run_ref({"", Op::kLinearBackwardData, {}, {dy, w}, {x.shape}, {}, {}})[0];
  check_gradient("dx", {"", Op::kGelu, {}, {x}, {x.shape}, {}, {}}, 0, plain, dx);
}

TEST_CASE("gradients: convolution with stride, padding and groups") {
  Attrs attrs;
  attrs.kernel = {3, 2}, attrs.stride = {2, 1}, attrs.pad = {1, 0, 1, 1}, attrs.groups = 2;
  const Tensor x = unit_random({2, 5, 4, 4}, 1), w = unit_random({6, 3, 2, 2}, 2), b = unit_random({6}, 3),
               dy = unit_random({2, 2, 5, 6}, 4);
  const Case forward{"", Op::kConv2d, attrs, {x, w, b}, {dy.shape}, {}, {}};
  const auto data = run_ref({"", Op::kConv2dBackwardData, attrs, {dy, w}, {x.shape}, {}, {}});
  const auto weights = run_ref({"", Op::kConv2dBackwardWeights, attrs, {x, dy}, {w.shape, b.shape}, {}, {}});
  check_gradient("dx", forward, 0, dy, data[0]);
  check_gradient("dw", forward, 1, dy, weights[0]);
  check_gradient("db", forward, 2, dy, weights[1]);
}

// Inputs whose normalised values keep off the corners of relu and relu6, where there is no gradient to compare.
static Tensor away_from_corner(const Tensor& gamma, const Tensor& beta) {
  for (std::uint64_t seed = 1;; ++seed) {
    Tensor x = unit_random({9, 3}, seed);
    const Shape channels = f32({3});
    const Tensor mean = zeros(DType::kF32, {3});
    const Tensor y = run_ref({"",
                              Op::kBatchNorm,
                              {},
                              {x, gamma, beta, mean, mean},
                              {x.shape, channels, channels, channels, channels},
                              {},
                              {}})[0];
    float nearest = 1.0f;
    for (int i = 0; i < 27; ++i)
      for (const float corner : {0.0f, 6.0f}) nearest = std::fmin(nearest, std::fabs(y.data<float>()[i] - corner));
    if (nearest > 0.02f) return x;
  }
}

TEST_CASE("gradients: batch norm, with and without relu and relu6") {
  for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kRelu6}) {
    Attrs attrs;
    attrs.activation = activation;
    const Tensor gamma = activation == Activation::kRelu6 ? uniform({3}, 4.0f, 5.0f, 2) : unit_random({3}, 2);
    const Tensor beta = uniform({3}, 0.1f, 0.2f, 3), dy = unit_random({9, 3}, 4);
    const Tensor x = away_from_corner(gamma, beta);
    const Shape channels = f32({3});
    const Case forward{"",
                       Op::kBatchNorm,
                       attrs,
                       {x, gamma, beta, zeros(DType::kF32, {3}), zeros(DType::kF32, {3})},
                       {x.shape, channels, channels, channels, channels},
                       {},
                       {}};
    const auto y = run_ref(forward);
    const auto got = run_ref({"",
                              Op::kBatchNormBackward,
                              attrs,
                              {x, dy, gamma, y[1], y[2], activation != Activation::kNone ? beta : absent()},
                              {x.shape, channels, channels},
                              {},
                              {}});
    const float h = 2e-3f;  // small, so that relu's corner is not crossed
    check_gradient("dx", forward, 0, dy, got[0], h);
    check_gradient("dgamma", forward, 1, dy, got[1], h);
    check_gradient("dbeta", forward, 2, dy, got[2], h);
  }
}

TEST_CASE("gradients: layer norm") {
  const Tensor x = unit_random({4, 6}, 1), gamma = unit_random({6}, 2), beta = unit_random({6}, 3),
               dy = unit_random({4, 6}, 4);
  const Case forward{"", Op::kLayerNorm, {}, {x, gamma, beta}, {x.shape, f32({4}), f32({4})}, {}, {}};
  const auto y = run_ref(forward);
  const auto got =
      run_ref({"", Op::kLayerNormBackward, {}, {x, dy, gamma, y[1], y[2]}, {x.shape, f32({6}), f32({6})}, {}, {}});
  check_gradient("dx", forward, 0, dy, got[0], 4e-3f);
  check_gradient("dgamma", forward, 1, dy, got[1]);
  check_gradient("dbeta", forward, 2, dy, got[2]);
}

TEST_CASE("gradients: norms of a sum, which others read too") {
  const Tensor x = unit_random({4, 6}, 1), residual = unit_random({4, 6}, 7), gamma = unit_random({6}, 2),
               beta = unit_random({6}, 3);
  const Tensor dy = unit_random({4, 6}, 4), dsum = unit_random({4, 6}, 8);
  const Shape each = f32({4}), columns = f32({6});
  // y · dy + sum · dsum, of which the gradient is the sum of the norm's and dsum.
  const auto check = [&](const Case& forward, std::size_t at, const std::vector<Tensor>& got) {
    for (const std::size_t which : {std::size_t{0}, at}) {
      std::vector<double> expected = numeric(forward, which, dy, 4e-3f);
      double squares = 0.0;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        expected[i] += dsum.data<float>()[i];
        squares += expected[i] * expected[i];
      }
      const double size = std::sqrt(squares / static_cast<double>(expected.size()));
      for (std::size_t i = 0; i < expected.size(); ++i)
        CHECK(std::fabs(got[0].data<float>()[i] - expected[i]) < 2e-3 * (size + std::fabs(expected[i])));
    }
  };
  const Case layer{"", Op::kLayerNorm, {}, {x, gamma, beta, residual}, {x.shape, each, each, x.shape}, {}, {}};
  const auto y = run_ref(layer);
  const Case layer_back{
      "", Op::kLayerNormBackward, {}, {y[3], dy, gamma, y[1], y[2], dsum}, {x.shape, columns, columns}, {}, {}};
  check(layer, 3, run_ref(layer_back));
  const Case rms{"", Op::kRmsNorm, {}, {x, gamma, residual}, {x.shape, each, x.shape}, {}, {}};
  const auto z = run_ref(rms);
  check(rms, 2, run_ref({"", Op::kRmsNormBackward, {}, {z[2], dy, gamma, z[1], dsum}, {x.shape, columns}, {}, {}}));
}

TEST_CASE("gradients: relu, relu6, gelu, dropout of elements and of examples") {
  const Tensor x = uniform({40}, -3.0f, 3.0f, 1), dy = unit_random({40}, 2);
  const Case relu{"", Op::kRelu, {}, {x}, {x.shape}, {}, {}};
  check_gradient("relu", relu, 0, dy,
                 run_ref({"", Op::kReluBackward, {}, {run_ref(relu)[0], dy}, {x.shape}, {}, {}})[0], 1e-3f);
  const Tensor wide = uniform({40}, -3.0f, 9.0f, 3);
  const Case relu6{"", Op::kRelu6, {}, {wide}, {x.shape}, {}, {}};
  check_gradient("relu6", relu6, 0, dy,
                 run_ref({"", Op::kRelu6Backward, {}, {run_ref(relu6)[0], dy}, {x.shape}, {}, {}})[0], 1e-3f);
  const Case gelu{"", Op::kGelu, {}, {x}, {x.shape}, {}, {}};
  check_gradient("gelu", gelu, 0, dy, run_ref({"", Op::kGeluBackward, {}, {x, dy}, {x.shape}, {}, {}})[0]);
  Attrs attrs;
  attrs.cap = 2.0f;
  const Case capped{"", Op::kSoftCap, attrs, {x}, {x.shape}, {}, {}};
  check_gradient("soft cap", capped, 0, dy, run_ref({"", Op::kSoftCapBackward, attrs, {x, dy}, {x.shape}, {}, {}})[0]);
  attrs.rate = 0.4f;
  const Case dropout{"", Op::kDropout, attrs, {x}, {x.shape}, {}, {}};
  check_gradient("dropout", dropout, 0, dy, run_ref({"", Op::kDropoutBackward, attrs, {dy}, {x.shape}, {}, {}})[0]);
  attrs.whole_example = true;
  const Tensor examples = unit_random({8, 5}, 4), dexamples = unit_random({8, 5}, 5);
  const Case depth{"", Op::kDropout, attrs, {examples}, {examples.shape}, {}, {}};
  check_gradient("stochastic depth", depth, 0, dexamples,
                 run_ref({"", Op::kDropoutBackward, attrs, {dexamples}, {examples.shape}, {}, {}})[0]);
}

TEST_CASE("gradients: pooling") {
  Attrs attrs;
  attrs.kernel = {3, 3}, attrs.stride = {2, 2}, attrs.pad = {1, 1, 1, 1};
  Tensor x = zeros(DType::kF32, {2, 5, 5, 2});  // far enough apart that no step changes which is largest
  for (int i = 0; i < 100; ++i) x.data<float>()[i] = static_cast<float>(i * 37 % 101) * 0.1f;
  const Tensor dy = unit_random({2, 3, 3, 2}, 2);
  const Case max{"", Op::kMaxPool, attrs, {x}, {dy.shape, shape_of(DType::kS32, {2, 3, 3, 2})}, {}, {}};
  check_gradient("max", max, 0, dy,
                 run_ref({"", Op::kMaxPoolBackward, attrs, {dy, run_ref(max)[1]}, {x.shape}, {}, {}})[0]);
  const Tensor d = unit_random({2, 2}, 3);
  const Case average{"", Op::kAvgPool, {}, {x}, {d.shape}, {}, {}};
  check_gradient("average", average, 0, d, run_ref({"", Op::kAvgPoolBackward, {}, {d}, {x.shape}, {}, {}})[0]);
}

TEST_CASE("gradients: softmax cross-entropy gives the gradient of its loss, with and without smoothing") {
  for (const float smoothing : {0.0f, 0.2f}) {
    Attrs attrs;
    attrs.rate = smoothing;
    const Tensor x = uniform({4, 6}, -2.0f, 2.0f, 1);
    Tensor labels = integers(DType::kS32, {4}, 0, 5, 2);
    labels.data<std::int32_t>()[1] = -1;
    const Shape count = shape_of(DType::kS32, {1});
    const Case forward{"", Op::kSoftmaxCrossEntropy, attrs, {x, labels}, {f32({1}), x.shape, count, count}, {}, {}};
    const auto got = run_ref(forward);
    check_gradient("dlogits", forward, 0, scalar(1.0f), got[1]);
    CHECK(got[3].data<std::int32_t>()[0] == 3);
  }
}

TEST_CASE(
    "gradients: softmax cross-entropy against probabilities gives the gradient of its loss, and that of labels for "
    "one-hot ones") {
  const Tensor x = uniform({4, 6}, -2.0f, 2.0f, 1);
  const Shape count = shape_of(DType::kS32, {1});
  Tensor shares = uniform({4, 6}, 0.0f, 0.3f, 2), labels = integers(DType::kS32, {4}, 0, 5, 3);
  for (const float smoothing : {0.0f, 0.2f}) {
    Attrs attrs;
    attrs.rate = smoothing;
    const Case soft{"", Op::kSoftCrossEntropy, attrs, {x, shares}, {f32({1}), x.shape, count, count}, {}, {}};
    check_gradient("dlogits", soft, 0, scalar(1.0f), run_ref(soft)[1]);
    Tensor whole = uniform({4, 6}, 0.0f, 0.0f, 4);
    for (std::int64_t r = 0; r < 4; ++r) whole.data<float>()[r * 6 + labels.data<std::int32_t>()[r]] = 1.0f;
    const auto got = run_ref({"", Op::kSoftCrossEntropy, attrs, {x, whole}, {f32({1}), x.shape, count, count}, {}, {}});
    const auto wanted =
        run_ref({"", Op::kSoftmaxCrossEntropy, attrs, {x, labels}, {f32({1}), x.shape, count, count}, {}, {}});
    CHECK(got[0].data<float>()[0] == doctest::Approx(wanted[0].data<float>()[0]));
    for (int i = 0; i < 24; ++i)
      CHECK(got[1].data<float>()[i] == doctest::Approx(wanted[1].data<float>()[i]).epsilon(1e-5));
    for (const std::size_t i : {2, 3}) CHECK(got[i].data<std::int32_t>()[0] == wanted[i].data<std::int32_t>()[0]);
  }
}

TEST_CASE("gradients: losses with targets give the gradient of their mean") {
  const Tensor x = uniform({5, 3}, -2.0f, 2.0f, 1);
  const Tensor labels = uniform({5, 3}, 0.0f, 1.0f, 2), numbers = uniform({5, 3}, -2.0f, 2.0f, 3);
  for (const float smoothing : {0.0f, 0.2f}) {
    Attrs attrs;
    attrs.rate = smoothing;
    const Case binary{"", Op::kBinaryCrossEntropy, attrs, {x, labels}, {f32({1}), x.shape}, {}, {}};
    check_gradient("dlogits", binary, 0, scalar(1.0f), run_ref(binary)[1]);
  }
  for (const float delta : {0.0f, 0.7f}) {
    Attrs attrs;
    attrs.delta = delta;
    const Case regression{"", Op::kRegressionLoss, attrs, {x, numbers}, {f32({1}), x.shape}, {}, {}};
    check_gradient("dpredictions", regression, 0, scalar(1.0f), run_ref(regression)[1]);
  }
}

TEST_CASE("gradients: the gradient of a loss is multiplied by its factor, and the loss is not") {
  const Tensor x = uniform({5, 3}, -2.0f, 2.0f, 1), targets = uniform({5, 3}, 0.0f, 1.0f, 2);
  const Tensor labels = integers(DType::kS32, {5}, -1, 2, 3);
  for (const Op op : {Op::kSoftmaxCrossEntropy, Op::kSoftCrossEntropy, Op::kBinaryCrossEntropy, Op::kRegressionLoss}) {
    CAPTURE(name_of(op));
    const Tensor& wanted = op == Op::kSoftmaxCrossEntropy ? labels : targets;
    const auto plain = run_ref({"", op, {}, {x, wanted}, {f32({1}), x.shape}, {}, {}});
    const auto scaled = run_ref({"", op, {}, {x, wanted, scalar(-2.5f)}, {f32({1}), x.shape}, {}, {}});
    CHECK(scaled[0].data<float>()[0] == plain[0].data<float>()[0]);
    for (int i = 0; i < 15; ++i)
      CHECK(scaled[1].data<float>()[i] == doctest::Approx(-2.5f * plain[1].data<float>()[i]));
  }
}

TEST_CASE("gradients: embedding and positions") {
  const Tensor ids = integers(DType::kS32, {2, 5}, -1, 7, 1), table = unit_random({7, 3}, 2),
               dy = unit_random({2, 5, 3}, 3);
  const Case embedding{"", Op::kEmbedding, {}, {ids, table}, {dy.shape}, {}, {}};
  check_gradient("table", embedding, 1, dy,
                 run_ref({"", Op::kEmbeddingBackward, {}, {ids, dy}, {table.shape}, {}, {}})[0]);
  const Tensor first = integers(DType::kS32, {2}, 0, 2, 4), x = unit_random({2, 5, 3}, 5);
  const Case positions{"", Op::kAddPositions, {}, {x, table, first}, {dy.shape}, {}, {}};
  check_gradient("positions", positions, 1, dy,
                 run_ref({"", Op::kAddPositionsBackward, {}, {dy, first}, {table.shape}, {}, {}})[0]);
}

TEST_CASE("gradients: attention") {
  Attrs attrs;
  attrs.heads = 2;
  const Tensor qkv = unit_random({2, 5, 18}, 1), dy = unit_random({2, 5, 6}, 2);
  const Case forward{"", Op::kAttention, attrs, {qkv}, {dy.shape, f32({2, 2, 5})}, {}, {}};
  const auto y = run_ref(forward);
  check_gradient("dqkv", forward, 0, dy,
                 run_ref({"", Op::kAttentionBackward, attrs, {qkv, y[0], y[1], dy}, {qkv.shape}, {}, {}})[0]);
}

TEST_CASE("gradients: attention whose queries share keys and values") {
  Attrs attrs;
  attrs.heads = 4, attrs.kv_heads = 2;
  const Tensor qkv = unit_random({2, 5, 24}, 1), dy = unit_random({2, 5, 12}, 2);
  const Case forward{"", Op::kAttention, attrs, {qkv}, {dy.shape, f32({2, 4, 5})}, {}, {}};
  const auto y = run_ref(forward);
  check_gradient("dqkv", forward, 0, dy,
                 run_ref({"", Op::kAttentionBackward, attrs, {qkv, y[0], y[1], dy}, {qkv.shape}, {}, {}})[0]);
}

TEST_CASE("gradients: attention with a window and capped scores") {
  Attrs attrs;
  attrs.heads = 4, attrs.kv_heads = 2, attrs.window = 3, attrs.cap = 0.8f, attrs.scale_a = 1.7f;
  const Tensor qkv = unit_random({2, 6, 24}, 1), dy = unit_random({2, 6, 12}, 2);
  const Case forward{"", Op::kAttention, attrs, {qkv}, {dy.shape, f32({2, 4, 6})}, {}, {}};
  const auto y = run_ref(forward);
  check_gradient("dqkv", forward, 0, dy,
                 run_ref({"", Op::kAttentionBackward, attrs, {qkv, y[0], y[1], dy}, {qkv.shape}, {}, {}})[0]);
}

TEST_CASE("attention: a window hides what lies before it, and one as long as the sequence nothing") {
  Attrs attrs;
  attrs.heads = 1, attrs.window = 2;
  Tensor qkv = unit_random({1, 5, 12}, 1);
  const auto attend = [&] { return run_ref({"", Op::kAttention, attrs, {qkv}, {f32({1, 5, 4})}, {}, {}})[0]; };
  const Tensor before = attend();
  for (int i = 0; i < 3 * 12; ++i) qkv.data<float>()[i] += 1.0f;  // the first three positions
  const Tensor after = attend();
  CHECK(after.data<float>()[3 * 4] != before.data<float>()[3 * 4]);
  for (int i = 4 * 4; i < 5 * 4; ++i) CHECK(after.data<float>()[i] == before.data<float>()[i]);
  attrs.window = 5;
  const Tensor whole = attend();
  attrs.window = 0;
  CHECK(whole.bytes == attend().bytes);
}

TEST_CASE("gradients: RMS norm, SwiGLU, rotary positions") {
  const Tensor x = unit_random({4, 6}, 1), gamma = unit_random({6}, 2), dy = unit_random({4, 6}, 4);
  const Case norm{"", Op::kRmsNorm, {}, {x, gamma}, {x.shape, f32({4})}, {}, {}};
  const auto got =
      run_ref({"", Op::kRmsNormBackward, {}, {x, dy, gamma, run_ref(norm)[1]}, {x.shape, f32({6})}, {}, {}});
  check_gradient("dx of RMS norm", norm, 0, dy, got[0], 4e-3f);
  check_gradient("dgamma", norm, 1, dy, got[1]);
  const Tensor wide = uniform({4, 12}, -3.0f, 3.0f, 3);
  const Case swiglu{"", Op::kSwiGlu, {}, {wide}, {x.shape}, {}, {}};
  check_gradient("dx of SwiGLU", swiglu, 0, dy,
                 run_ref({"", Op::kSwiGluBackward, {}, {wide, dy}, {wide.shape}, {}, {}})[0]);
  Attrs gelu;
  gelu.activation = Activation::kGelu;
  const Case gated{"", Op::kSwiGlu, gelu, {wide}, {x.shape}, {}, {}};
  check_gradient("dx of gated gelu", gated, 0, dy,
                 run_ref({"", Op::kSwiGluBackward, gelu, {wide, dy}, {wide.shape}, {}, {}})[0]);
  Attrs attrs;
  attrs.heads = 2, attrs.kv_heads = 1, attrs.axis = 9, attrs.theta = 50.0f;
  const Tensor qkv = unit_random({2, 5, 16}, 5), back = unit_random({2, 5, 16}, 6),
               first = integers(DType::kS32, {2}, 0, 6, 7);
  const Case rope{"", Op::kRope, attrs, {qkv, first}, {qkv.shape}, {}, {}};
  check_gradient("dx of rope", rope, 0, back,
                 run_ref({"", Op::kRopeBackward, attrs, {back, first}, {qkv.shape}, {}, {}})[0]);
}

TEST_CASE("rope: turns are slowed, all or the slow ones only") {
  Attrs attrs;
  attrs.heads = 1, attrs.axis = 10, attrs.theta = 10000.0f, attrs.slow = 4.0f;
  const Tensor qkv = unit_random({1, 2, 3 * 8}, 1);
  // The angle by which pair i of the second position's query turns.
  const auto angle = [&](int i) {
    const Tensor y = run_ref({"", Op::kRope, attrs, {qkv, absent()}, {qkv.shape}, {}, {}})[0];
    const float *x = qkv.data<float>() + 24, *turned = y.data<float>() + 24;
    return std::atan2(double{turned[4 + i]}, double{turned[i]}) - std::atan2(double{x[4 + i]}, double{x[i]});
  };
  for (int i = 0; i < 4; ++i)
    CHECK(std::sin(angle(i)) == doctest::Approx(std::sin(std::pow(10.0, -i) / 4)).epsilon(1e-4));
  // In 100 positions the pairs turn 15.9, 1.59, 0.159 and 0.0159 times: not slowed, in between, slowed, slowed.
  attrs.long_context = 100, attrs.long_low = 1.0f, attrs.long_high = 4.0f;
  const double kept = (100 * 0.1 / (2 * 3.14159265358979) - 1) / 3;
  CHECK(std::sin(angle(0)) == doctest::Approx(std::sin(1.0)).epsilon(1e-4));
  CHECK(std::sin(angle(1)) == doctest::Approx(std::sin(0.1 * (kept + (1 - kept) / 4))).epsilon(1e-4));
  CHECK(std::sin(angle(2)) == doctest::Approx(std::sin(0.01 / 4)).epsilon(1e-3));
  CHECK(std::sin(angle(3)) == doctest::Approx(std::sin(0.001 / 4)).epsilon(1e-2));
  // By their places: pairs 0, 1, 2 and 3 are slowed not at all, by a quarter, by three quarters, fully.
  attrs.long_context = 0, attrs.ramp_begin = 0.5f, attrs.ramp_end = 2.5f;
  CHECK(std::sin(angle(0)) == doctest::Approx(std::sin(1.0)).epsilon(1e-4));
  CHECK(std::sin(angle(1)) == doctest::Approx(std::sin(0.1 * (0.75 + 0.25 / 4))).epsilon(1e-4));
  CHECK(std::sin(angle(2)) == doctest::Approx(std::sin(0.01 * (0.25 + 0.75 / 4))).epsilon(1e-3));
  CHECK(std::sin(angle(3)) == doctest::Approx(std::sin(0.001 / 4)).epsilon(1e-2));
}

TEST_CASE("rope: scores depend on the distance of positions alone, and position 0 is not turned") {
  Attrs attrs;
  attrs.heads = 1, attrs.axis = 100;
  const Tensor qkv = unit_random({1, 2, 3 * 8}, 1);
  const auto score = [&](int at) {  // of the query at position at + 1 with the key at position at
    Tensor first = zeros(DType::kS32, {1});
    first.data<std::int32_t>()[0] = at;
    const Tensor y = run_ref({"", Op::kRope, attrs, {qkv, first}, {qkv.shape}, {}, {}})[0];
    double sum = 0;
    for (int i = 0; i < 8; ++i) sum += double{y.data<float>()[24 + i]} * y.data<float>()[8 + i];
    return sum;
  };
  CHECK(score(0) == doctest::Approx(score(57)).epsilon(1e-5));
  const Tensor y = run_ref({"", Op::kRope, attrs, {qkv, absent()}, {qkv.shape}, {}, {}})[0];
  for (int i = 0; i < 24; ++i) CHECK(y.data<float>()[i] == qkv.data<float>()[i]);
  // The second position's first pair turns by one radian (theta^0).
  const float a = qkv.data<float>()[24], b = qkv.data<float>()[28];
  CHECK(y.data<float>()[24] == doctest::Approx(a * std::cos(1.0) - b * std::sin(1.0)));
  CHECK(y.data<float>()[28] == doctest::Approx(b * std::cos(1.0) + a * std::sin(1.0)));
  for (int i = 40; i < 48; ++i) CHECK(y.data<float>()[i] == qkv.data<float>()[i]);  // values stay
}

}  // namespace mlx::kernels::test
