// Gradients of one small model of each family against those that PyTorch computes in float64 (gradients.json, made by
// make_gradients.py). Weights, inputs and probes follow a formula that the script has too.
//
// The gradients are read out of a real training step: with plain SGD a parameter moves by the learning rate times its
// gradient, and a large power of two as the rate keeps the difference exact enough.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/fd.h"
#include "base/json.h"
#include "base/toml.h"
#include "graph/passes/passes.h"
#include "graph/session/session.h"
#include "nn/family.h"
#include "tests/kernels/backends.h"

using namespace mlx;

namespace {

constexpr std::uint64_t kInputs = 1000, kTargets = 1001, kProbes = 2000;
constexpr float kRate = 1048576.0f;

std::uint32_t bits(std::uint64_t stream, std::uint64_t element) {
  auto x = static_cast<std::uint32_t>(element * 2654435761u + stream * 2246822519u + 374761393u);
  x ^= x >> 15;
  x *= 2246822519u;
  x ^= x >> 13;
  x *= 3266489917u;
  return x ^ (x >> 16);
}

float uniform(std::uint64_t stream, std::uint64_t element) {
  return static_cast<float>(bits(stream, element) >> 8) / 8388608.0f - 1.0f;
}

graph::Tensor parameter(std::uint64_t stream, const graph::Value& value) {
  graph::Tensor tensor;
  tensor.shape = graph::concrete(value, {});
  tensor.data.resize(tensor.shape.bytes());
  float scale = 0.25f, offset = value.name.ends_with(".gamma") ? 1.0f : 0.0f;
  if (tensor.shape.rank > 1) {
    const double fan_in = static_cast<double>(tensor.shape.count() / tensor.shape.dims[0]);
    scale = static_cast<float>(std::exp2(std::floor(std::log2(std::sqrt(3 / fan_in)))));
  }
  auto* values = reinterpret_cast<float*>(tensor.data.data());
  for (std::int64_t i = 0; i < tensor.shape.count(); ++i)
    values[i] = offset + scale * uniform(stream, static_cast<std::uint64_t>(i));
  return tensor;
}

struct Step {
  float loss = 0;
  graph::Tensors before, after;  // parameters
};

Step step_of(const Json& fixture, kernels::Backend backend) {
  const TomlNode root = parse_toml(fixture["model"].get<std::string>(), "fixture");
  std::vector<std::int64_t> shape = fixture["shape"];
  const std::int64_t batch = fixture["batch"], classes = fixture["classes"];
  const bool text = shape.size() == 1;
  const TomlNode* table = nullptr;
  for (const auto& [name, node] : root.members)
    if (name == "model") table = &node;
  REQUIRE(table != nullptr);
  const nn::InputSpec spec =
      text ? nn::InputSpec::tokens(classes) : nn::InputSpec::images(shape[0], shape[1], shape[2], classes);
  const nn::Built built = nn::build(TomlReader(*table, "fixture", "[model]"), spec);

  graph::OptimizerSpec sgd;
  sgd.momentum = 0;
  sgd.nesterov = false;
  const graph::TrainingGraph training = graph::to_training(built.graph, sgd, 0);
  graph::Tensors tensors = nn::initialize(built.graph, built.family, 1);
  std::uint64_t stream = 0;
  Step step;
  for (const graph::Value& value : built.graph.values) {
    if (value.role != graph::Role::kParameter) continue;
    step.before[value.name] = tensors[value.name] = parameter(stream++, value);
  }

  std::int64_t count = batch, targets = text ? batch * shape[0] : batch;
  for (const std::int64_t size : shape) count *= size;
  std::vector<float> x(static_cast<std::size_t>(count));
  std::vector<std::int32_t> ids(x.size()), labels(static_cast<std::size_t>(targets));
  const auto below = static_cast<std::uint32_t>(classes);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = uniform(kInputs, i);
    ids[i] = static_cast<std::int32_t>(bits(kInputs, i) % below);
  }
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(bits(kTargets, i) % below);
  std::vector<std::int64_t> dims{batch};
  dims.insert(dims.end(), shape.begin(), shape.end());

  Pool pool(2);
  graph::SessionOptions options;
  options.backend = backend;
  options.training = true;
  graph::Session session(training.graph, tensors, options, pool);
  const void* input = text ? static_cast<const void*>(ids.data()) : x.data();
  session.run({{training.graph.find(text ? "ids" : "images"), input, dims},
               {training.labels, labels.data(), text ? dims : std::vector<std::int64_t>{batch}},
               {training.learning_rate, &kRate, {1}}});
  std::memcpy(&step.loss, session.output(training.loss).data(), sizeof step.loss);
  for (auto& [name, tensor] : session.tensors())
    if (step.before.contains(name)) step.after[name] = tensor;
  return step;
}

// The largest distance, relative to the gradient's norm, of its norm and its dot products with the probes.
double distance(const Json& wanted, const graph::Tensor& before, const graph::Tensor& after) {
  const auto* a = reinterpret_cast<const float*>(before.data.data());
  const auto* b = reinterpret_cast<const float*>(after.data.data());
  double squares = 0, dots[4] = {};
  for (std::int64_t i = 0; i < before.shape.count(); ++i) {
    const double gradient = (static_cast<double>(a[i]) - static_cast<double>(b[i])) / static_cast<double>(kRate);
    squares += gradient * gradient;
    for (std::uint64_t k = 0; k < 4; ++k)
      dots[k] += gradient * static_cast<double>(uniform(kProbes + k, static_cast<std::uint64_t>(i)));
  }
  // Where a gradient is zero but for rounding (a bias in front of a batch norm), against what others are like.
  const double norm = std::max(wanted["norm"].get<double>(), 1e-2);
  double furthest = std::abs(std::sqrt(squares) - wanted["norm"].get<double>()) / norm;
  for (std::size_t k = 0; k < 4; ++k)
    furthest = std::max(furthest, std::abs(dots[k] - wanted["dots"][k].get<double>()) / norm);
  return furthest;
}

}  // namespace

TEST_CASE("gradients of every family are those of PyTorch in float64") {
  const std::string file = MLX_SOURCE_DIR "/tests/nn/gradients.json";
  const Json fixtures = parse_json(read_text(file), file);
  REQUIRE_GE(fixtures["families"].size(), 7);
  for (const kernels::Backend backend : kernels::test::backends()) {
    for (const Json& fixture : fixtures["families"]) {
      CAPTURE(std::string(backend.name()));
      CAPTURE(fixture["model"].get<std::string>());
      const Step step = step_of(fixture, backend);
      // PyTorch's own float32 is off by so much; other orders of summation are as good.
      const double rounding = 3 * fixture["float32"].get<double>();
      const double tolerance = std::max(rounding, backend == kernels::backend_named("ref") ? 2e-5 : 2e-4);
      CHECK(std::abs(static_cast<double>(step.loss) - fixture["loss"].get<double>()) < tolerance);
      REQUIRE_EQ(step.before.size(), fixture["parameters"].size());
      for (const Json& wanted : fixture["parameters"]) {
        const std::string name = wanted["name"];
        CAPTURE(name);
        REQUIRE(step.after.contains(name));
        CHECK(distance(wanted, step.before.at(name), step.after.at(name)) < tolerance);
      }
    }
  }
}
