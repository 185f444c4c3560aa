// Batches in, logits out.

#include "infer/session.h"

#include <algorithm>

#include "base/error.h"

namespace mlx::infer {
namespace {

graph::Graph observed(const Model& model, const std::vector<graph::ValueId>& values) {
  graph::Graph graph = model.graph();
  graph.outputs.insert(graph.outputs.end(), values.begin(), values.end());
  return graph;
}

}  // namespace

graph::SessionOptions session_options(const Model& model) {
  graph::SessionOptions options;
  options.backend = model.backend();
  return options;
}

Session::Session(const Model& model, const SessionOptions& options)
    : model_(model),
      max_batch_(options.max_batch),
      session_(observed(model, options.observe), model.about().weights, session_options(model), model.pool()) {
  if (max_batch_ < 1) fail(ErrorKind::kUsage, "a batch of {} examples: expected at least 1", max_batch_);
}

float* Session::input() {
  if (input_.empty()) input_.resize(static_cast<std::size_t>(max_batch_ * model_.signature().example));
  return input_.data();
}

std::int64_t Session::padded(std::int64_t count) const {
  std::int64_t size = 1;
  while (size < count) size *= 2;
  return std::min(size, max_batch_);
}

Logits Session::run(std::int64_t count) {
  CHECK(model_.signature().batches && count >= 1 && count <= max_batch_);
  const std::int64_t size = padded(count), example = model_.signature().example;
  float* const examples = input();
  std::fill(examples + count * example, examples + size * example, 0.0f);
  const graph::Value& value = model_.graph().value(model_.graph().inputs[0]);
  std::vector<std::int64_t> dims{size};
  for (std::size_t i = 1; i < value.dims.size(); ++i) dims.push_back(value.dims[i].size);
  session_.run({{model_.graph().inputs[0], examples, std::move(dims)}});
  Logits out = logits();
  out.rows = count;
  return out;
}

void Session::warm_up() {
  for (std::int64_t size = max_batch_; size >= 1; size /= 2) run(padded(size));
}

Logits Session::run(const data::BatchView& batch, std::int64_t count) {
  const data::BatchInput& input = batch.inputs.at(0);
  std::vector<std::int64_t> dims = input.dims;
  dims[0] = count;
  session_.run({{model_.graph().inputs.at(0), input.data, std::move(dims)}});
  return logits();
}

Logits Session::logits() const {
  const graph::ValueId output = model_.graph().outputs.at(0);
  const kernels::Shape shape = session_.output_shape(output);
  const std::int64_t width = shape.dims[static_cast<std::size_t>(shape.rank) - 1];
  return {reinterpret_cast<const float*>(session_.output(output).data()), shape.count() / width, width};
}

}  // namespace mlx::infer
