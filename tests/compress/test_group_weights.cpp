// Weights in groups: what rounding loses, and that the model answers nearly as before, the same on all kernels.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "../infer/language_model.h"
#include "base/error.h"
#include "compress/group_weights.h"
#include "graph/passes/passes.h"
#include "infer/generate.h"
#include "kernels/half.h"

namespace mlx {
namespace {

using compress::group_weights;
using compress::Groups;
using compress::round_group;

constexpr std::int64_t kTokens = 40;

std::vector<float> waves(std::size_t count, float size) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = size * std::sin(1.7f * static_cast<float>(i * i % 97));
  return out;
}

double error_of(const std::vector<float>& w, int bits) {
  std::vector<std::int8_t> q(w.size());
  const double scale = round_group(w, bits, q);
  CHECK(kernels::widen(kernels::to_f16(static_cast<float>(scale))) == static_cast<float>(scale));
  double error = 0, square = 0;
  for (std::size_t i = 0; i < w.size(); ++i) {
    error += std::pow(double{w[i]} - scale * q[i], 2);
    square += double{w[i]} * double{w[i]};
  }
  return std::sqrt(error / square);
}

nn::Model model_of(const std::string& family) {
  return infer::test::model_of_config(
      fmt::format("family = \"{}\"\nlayers = 2\nwidth = 64\nheads = 4\ncontext = 24\n", family), kTokens, 5);
}

std::vector<float> logits_of(const nn::Model& model, const char* backend) {
  Pool pool(2);
  const infer::Model ready(model, kernels::backend_named(backend), pool);
  infer::Generator generator(ready);
  std::vector<float> out;
  generator.logits({3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5},
                   [&](std::span<const float> rows) { out.insert(out.end(), rows.begin(), rows.end()); });
  return out;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  REQUIRE(a.size() == b.size());
  double apart = 0, square = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    apart += std::pow(double{a[i]} - double{b[i]}, 2);
    square += double{a[i]} * double{a[i]};
  }
  return std::sqrt(apart / square);
}

}  // namespace

TEST_CASE("groups: rounding loses what its bits say, and less than one scale for the largest weight would") {
  for (const std::size_t size : {32u, 64u, 128u}) {
    const std::vector<float> w = waves(size, 0.02f);
    CHECK(error_of(w, 8) < 0.006);
    const double four = error_of(w, 4);
    CHECK(four < 0.1);
    double plain = 0, square = 0;  // at the scale that makes the largest weight 7
    const float largest = std::fabs(*std::ranges::max_element(w, {}, [](float x) { return std::fabs(x); }));
    for (const float x : w) {
      plain += std::pow(double{x} - double{largest} / 7 * std::nearbyint(x * 7 / largest), 2);
      square += double{x} * double{x};
    }
    CHECK(four < std::sqrt(plain / square));
  }
}

TEST_CASE("groups: what four bits hold is kept; zeros, signs and numbers that are no weights") {
  std::vector<float> w(32);
  std::vector<std::int8_t> q(32);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = 0.25f * (static_cast<float>(i % 16) - 8);
  CHECK(round_group(w, 4, q) == 0.25f);
  for (std::size_t i = 0; i < w.size(); ++i) CHECK(int{q[i]} == static_cast<int>(i % 16) - 8);
  for (float& x : w) x = -x;  // the largest is positive: it gets the integer -8, and the scale is negative
  CHECK(round_group(w, 4, q) == -0.25f);
  std::ranges::fill(w, 0.0f);
  for (const int bits : {4, 8}) {
    CHECK(round_group(w, bits, q) == 0);
    CHECK(std::ranges::all_of(q, [](int x) { return x == 0; }));
  }
  for (const float wrong : {std::nanf(""), INFINITY, -INFINITY}) {
    w[7] = wrong;
    CHECK(std::isnan(round_group(w, 4, q)));
    CHECK(std::isnan(round_group(w, 8, q)));
  }
  std::ranges::fill(w, 1e30f);
  CHECK(std::isinf(round_group(w, 4, q)));
}

TEST_CASE("groups: a language model answers nearly as before, the same on all kernels") {
  for (const char* const family : {"gpt2", "llama"}) {
    CAPTURE(family);
    const nn::Model model = model_of(family);
    const std::vector<float> before = logits_of(model, "ref");
    for (const Groups& groups : {Groups{8, 32}, Groups{8, 64}, Groups{4, 32}, Groups{4, 64}}) {
      Pool one(1), three(3);
      const nn::Model small = group_weights(model, {groups}, one);
      const nn::Model again = group_weights(model, {groups}, three);
      CHECK(nn::encode_tensors(small.weights->tensors()) == nn::encode_tensors(again.weights->tensors()));
      CHECK(small.precision == (groups.bits == 4 ? "int4" : "int8"));
      CHECK(graph::decodes_with_cache(graph::to_inference(small.graph)));
      const std::vector<float> after = logits_of(small, "ref");
      CHECK(distance(before, after) < (groups.bits == 4 ? 0.35 : 0.03));
      for (const char* const backend : {"avx2", "avx512", "onednn"}) {
        CAPTURE(backend);
        try {
          (void)kernels::backend_named(backend);
        } catch (const Error&) {
          continue;  // not on this machine
        }
        CHECK(distance(after, logits_of(small, backend)) < 1e-5);
      }
      // Every layer is in groups; embeddings are not.
      for (const graph::Node& node : small.graph.nodes) CHECK(node.op != graph::Op::kLinear);
      CHECK(small.weights->contains("tokens.weight"));
      CHECK(small.weights->contains("logits.groups"));
    }
  }
}

TEST_CASE("groups: a plan has the bytes that the model has in the end") {
  Pool pool(1);
  for (const char* const family : {"gpt2", "llama"}) {  // a head that is the embedding, and one of its own
    const nn::Model model = model_of(family);
    for (const WeightType& type :
         {WeightType{{8, 32}}, WeightType{{4, 64}}, WeightType{{}, kernels::find_block_type(kernels::kQ4K)}}) {
      CAPTURE(family);
      CAPTURE(name_of(type));
      CAPTURE(type.unit());
      const LayerPlans plans = plan_layers(model, type);
      CHECK(plans.weights_before == model.weights->bytes());
      CHECK(plans.weights == group_weights(model, type, pool).weights->bytes());
      std::int64_t left = 0;
      for (const PlannedLayer& layer : plans.layers)
        left += layer.type == "stored" && layer.bytes == layer.bytes_before;
      CHECK(left == plans.left);
    }
  }
}

TEST_CASE("groups: what cannot be rounded is refused by name") {
  nn::Model model = model_of("llama");
  Pool pool(1);
  CHECK_THROWS_WITH_AS(group_weights(model, {{4, 160}}, pool), doctest::Contains("groups of 160"), Error);
  graph::Tensors tensors = model.weights->tensors();
  graph::Tensor& bad = tensors.at("block1.mlp.down.weight");
  reinterpret_cast<float*>(bad.data.data())[5] = std::nanf("");
  model.weights = std::make_shared<const graph::Weights>(std::move(tensors));
  CHECK_THROWS_WITH_AS(group_weights(model, {{4, 32}}, pool), doctest::Contains("block1.mlp.down.weight"), Error);
}

}  // namespace mlx
