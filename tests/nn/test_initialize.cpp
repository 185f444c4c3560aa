// Initial values: the right spread, no matter in which order layers stand, and the same bits every time.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/hash.h"
#include "built.h"
#include "kernels/philox.h"

using namespace mlx;
using namespace mlx::nn;

namespace {

std::vector<float> floats(const graph::Tensors& tensors, const std::string& name) {
  const graph::Tensor& tensor = tensors.at(name);
  std::vector<float> out(tensor.data.size() / 4);
  std::memcpy(out.data(), tensor.data.data(), tensor.data.size());
  return out;
}

struct Moments {
  double mean = 0, deviation = 0, kurtosis = 0;
};
Moments moments(const std::vector<float>& values) {
  Moments m;
  for (const float v : values) m.mean += v;
  m.mean /= static_cast<double>(values.size());
  double fourth = 0;
  for (const float v : values) m.deviation += std::pow(v - m.mean, 2), fourth += std::pow(v - m.mean, 4);
  m.deviation /= static_cast<double>(values.size());
  m.kurtosis = fourth / static_cast<double>(values.size()) / (m.deviation * m.deviation);
  m.deviation = std::sqrt(m.deviation);
  return m;
}

}  // namespace

TEST_CASE("initialize: Kaiming before relu, Xavier elsewhere, ones and zeros where they belong") {
  const Built model = built(
      "family = \"cnn\"\nlayers = [{ conv = 64, norm = \"batch\" }, { conv = 128 }, { dropout = 0.5 }, { pool = "
      "\"global\" },"
      "{ dense = 512, activation = \"none\" }]",
      InputSpec::images(28, 28, 3, 100));
  const graph::Tensors tensors = initialize(model.graph, model.family, 3);
  const auto expect = [&](const char* name, double deviation) {
    const Moments m = moments(floats(tensors, name));
    CHECK_MESSAGE(std::abs(m.deviation / deviation - 1) < 0.05, name);
    CHECK_MESSAGE(std::abs(m.mean) < 0.1 * deviation, name);
    CHECK_MESSAGE(m.kurtosis == doctest::Approx(3).epsilon(0.15), name);
  };
  expect("conv1.weight", std::sqrt(2.0 / 27));  // through its norm
  expect("conv2.weight", std::sqrt(2.0 / (9 * 64)));
  expect("dense1.weight", std::sqrt(2.0 / (128 + 512)));
  expect("classifier.weight", std::sqrt(2.0 / (512 + 100)));
  for (const float v : floats(tensors, "conv1.norm.gamma")) CHECK(v == 1.0f);
  for (const float v : floats(tensors, "conv1.norm.running_var")) CHECK(v == 1.0f);
  for (const char* name : {"conv1.norm.beta", "conv1.norm.running_mean", "conv2.bias", "classifier.bias"}) {
    for (const float v : floats(tensors, name)) CHECK(v == 0.0f);
  }
}

TEST_CASE("initialize: language models start small, layers that add to the residual stream smaller by their number") {
  for (const char* family : {"gpt2", "llama"}) {
    CAPTURE(family);
    const Built model =
        built(fmt::format("family = \"{}\"\nlayers = 8\nwidth = 64\nheads = 4\ndropout = 0.1\n", family),
              InputSpec::tokens(100));
    const graph::Tensors tensors = initialize(model.graph, model.family, 3);
    for (const auto& [name, tensor] : tensors) {
      const bool residual = name.ends_with("projection.weight") || name.ends_with("down.weight");
      const Moments m = moments(floats(tensors, name));
      CAPTURE(name);
      if (name.ends_with("weight")) {
        CHECK(std::abs(m.deviation / (residual ? 0.02 / 4 : 0.02) - 1) < 0.05);
      } else {
        CHECK(m.deviation == 0);
        CHECK(m.mean == (name.ends_with("gamma") ? 1 : 0));
      }
    }
  }
}

TEST_CASE("initialize: keyed by seed and name, not by place") {
  const Built a = built("family = \"mlp\"\nhidden = [30, 30]\n"),
              b = built("family = \"mlp\"\nhidden = [30, 30]\ndropout = 0.5\n");
  const graph::Tensors first = initialize(a.graph, "mlp", 1), again = initialize(a.graph, "mlp", 1),
                       other = initialize(a.graph, "mlp", 2);
  const graph::Tensors elsewhere = initialize(b.graph, "mlp", 1);
  for (const auto& [name, tensor] : first) {
    CHECK(again.at(name).data == tensor.data);
    CHECK(elsewhere.at(name).data == tensor.data);
  }
  CHECK(other.at("dense1.weight").data != first.at("dense1.weight").data);
  CHECK(first.at("classifier.weight").data != first.at("dense2.weight").data);
}

TEST_CASE("initialize: normal numbers agree with the C library's functions, and never change") {
  const Built model = built("family = \"mlp\"\nhidden = [64]\n");
  const graph::Tensors tensors = initialize(model.graph, "mlp", 42);
  const std::vector<float> got = floats(tensors, "dense1.weight");
  const Digest key = Digest::of(std::string_view("dense1.weight"));
  std::uint64_t stream = 0;
  for (std::size_t i = 0; i < 8; ++i) stream |= std::uint64_t{key.bytes[i]} << (8 * i);
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); i += 2) {
    const auto random = kernels::random_block(42, stream, 0, i / 4);
    const double radius = std::sqrt(2.0 / 784) * std::sqrt(-2 * std::log((random[i % 4] + 1.0) / 4294967296.0));
    const double angle = 2 * std::acos(-1.0) * random[i % 4 + 1] / 4294967296.0;
    worst = std::max(worst, std::abs(got[i] - radius * std::cos(angle)));
    worst = std::max(worst, std::abs(got[i + 1] - radius * std::sin(angle)));
  }
  CHECK(worst < 1e-8);
  // Bits that other machines and later versions must give too.
  CHECK(Digest::of(tensors.at("dense1.weight").data).brief() == "aac4b126a845");
}
