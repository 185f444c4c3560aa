// See golden.h.
#include "infer/golden.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "base/error.h"
#include "graph/new_tensor.h"
#include "graph/passes/passes.h"
#include "infer/encoder.h"
#include "infer/generate.h"
#include "infer/session.h"

namespace mlx::infer {
namespace {

using graph::DType;
using graph::Tensor;

constexpr const char *kInputs = "inputs", *kOutputs = "outputs";

template <typename T>
std::span<const T> numbers_of(const Tensor& tensor) {
  return {reinterpret_cast<const T*>(tensor.data.data()), static_cast<std::size_t>(tensor.shape.count())};
}

bool is_matrix(const Tensor& tensor, std::int64_t columns) {
  return tensor.shape.dtype == DType::kF32 && tensor.shape.rank == 2 && tensor.shape.dims[0] > 0 &&
         tensor.shape.dims[1] == columns;
}

bool takes_text(const Model& model) {
  return model.signature().takes == Takes::kText || graph::is_encoder(model.graph());
}

// The last dimension of the network's output.
std::int64_t output_width(const Model& model) {
  return model.graph().value(model.graph().outputs.at(0)).dims.back().size;
}

Tensor outputs_of_examples(const Model& model, const Tensor& inputs) {
  if (!is_matrix(inputs, model.signature().example))
    fail(ErrorKind::kCorrupt, "golden inputs: not examples of {} numbers", model.signature().example);
  const std::int64_t count = inputs.shape.dims[0];
  Session session(model, {.max_batch = count});
  std::memcpy(session.input(), inputs.data.data(), inputs.data.size());
  const Logits logits = session.run(count);
  Tensor out = graph::new_tensor(DType::kF32, {logits.rows, logits.width});
  std::memcpy(out.data.data(), logits.values, out.data.size());
  return out;
}

Tensor outputs_of_text(const Model& model, const Tensor& inputs) {
  const std::span<const std::int32_t> tokens = numbers_of<std::int32_t>(inputs);
  const bool encoder = graph::is_encoder(model.graph());
  const std::int64_t context = encoder ? Encoder(model).context() : model.signature().context;
  const std::int64_t vocabulary = encoder ? std::numeric_limits<std::int32_t>::max() : output_width(model);
  const auto known = [vocabulary](std::int32_t token) { return token >= 0 && token < vocabulary; };
  if (inputs.shape.dtype != DType::kS32 || inputs.shape.rank != 1 || tokens.empty() ||
      static_cast<std::int64_t>(tokens.size()) > context || !std::ranges::all_of(tokens, known))
    fail(ErrorKind::kCorrupt, "golden inputs: not up to {} tokens of the model", context);
  const std::vector<std::int32_t> text(tokens.begin(), tokens.end());
  Tensor out;
  const auto take = [&out](std::span<const float> numbers, std::int64_t rows) {
    out = graph::new_tensor(DType::kF32, {rows, static_cast<std::int64_t>(numbers.size()) / rows});
    std::memcpy(out.data.data(), numbers.data(), out.data.size());
  };
  if (encoder) {
    Encoder(model).encode({&text, 1}, [&](std::size_t, std::span<const float> states) {
      take(states, static_cast<std::int64_t>(text.size()));
    });
  } else {
    Generator generator(model);
    take(generator.follow(text), 1);
  }
  return out;
}

}  // namespace

void check_takes_golden(const Model& model) {
  if (!takes_text(model) && model.signature().takes == Takes::kTensors)
    fail(ErrorKind::kUsage, "golden outputs are for models of images, rows and text");
}

Golden golden_of(const Model& model, Tensor inputs) {
  check_takes_golden(model);
  Tensor outputs = takes_text(model) ? outputs_of_text(model, inputs) : outputs_of_examples(model, inputs);
  return {std::move(inputs), std::move(outputs)};
}

Tensor golden_examples(const Model& model, const data::BatchView& batch, std::int64_t examples) {
  const std::int64_t count = std::min(examples, batch.count);
  Tensor out = graph::new_tensor(DType::kF32, {count, model.signature().example});
  std::memcpy(out.data.data(), batch.inputs.at(0).data, out.data.size());
  return out;
}

Tensor golden_tokens(const std::vector<std::int32_t>& tokens) {
  Tensor out = graph::new_tensor(DType::kS32, {static_cast<std::int64_t>(tokens.size())});
  std::memcpy(out.data.data(), tokens.data(), out.data.size());
  return out;
}

double difference_now(const Model& model, const Golden& golden) {
  const Tensor now = golden_of(model, golden.inputs).outputs;
  if (now.shape != golden.outputs.shape) fail(ErrorKind::kCorrupt, "golden outputs: of another shape than the model's");
  const std::span<const float> is = numbers_of<float>(now), was = numbers_of<float>(golden.outputs);
  double largest = 0, apart = 0;
  for (std::size_t i = 0; i < is.size(); ++i) {
    if (!std::isfinite(is[i]) || !std::isfinite(was[i])) return INFINITY;
    largest = std::max(largest, std::fabs(double{was[i]}));
    apart = std::max(apart, std::fabs(double{is[i]} - double{was[i]}));
  }
  return largest > 0 ? apart / largest : apart > 0 ? INFINITY : 0;
}

double allowed_difference(const Model& model) {
  constexpr double kOfF32 = 1e-3, kOfIntegers = 0.03;
  return model.about().precision == "f32" ? kOfF32 : kOfIntegers;
}

void check_golden(const Model& model, const Golden& golden, const std::string& name) {
  const double apart = difference_now(model, golden);
  if (apart <= allowed_difference(model)) return;
  throw Error(
      ErrorKind::kNo,
      fmt::format("it does not give its golden outputs {}: they differ by {:.3g} of the largest, more than {:.3g}",
                  name, apart, allowed_difference(model)),
      "the model, this mlx or this machine computes something else than where they were kept; `mlx golden` "
      "checks by hand");
}

Bytes encode_golden(const Golden& golden) {
  return nn::encode_tensors({{kInputs, golden.inputs}, {kOutputs, golden.outputs}});
}

Golden decode_golden(ByteView bytes, const std::string& what) {
  graph::Tensors tensors = nn::decode_tensors(bytes, what);
  if (tensors.size() != 2 || !tensors.contains(kInputs) || !tensors.contains(kOutputs))
    fail(ErrorKind::kCorrupt, "{}: not the two tensors of golden outputs", what);
  Golden out{std::move(tensors[kInputs]), std::move(tensors[kOutputs])};
  if (out.inputs.shape.rank < 1 || out.inputs.shape.dims[0] > kMostGolden)
    fail(ErrorKind::kCorrupt, "{}: more than {} examples or tokens", what, kMostGolden);
  if (out.outputs.shape.dtype != DType::kF32) fail(ErrorKind::kCorrupt, "{}: the outputs are not f32", what);
  return out;
}

}  // namespace mlx::infer
