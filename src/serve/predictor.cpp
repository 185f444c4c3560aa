// Binds a model to a session for inference, the way evaluation does.
#include "serve/predictor.h"

#include <algorithm>

#include "base/error.h"
#include "graph/passes.h"

namespace mlx::serve {

Predictor::Predictor(const nn::Model& model, std::int64_t max_batch, kernels::Level level, Pool& pool)
    : height_(model.preprocessing.height),
      width_(model.preprocessing.width),
      channels_(model.preprocessing.channels),
      example_(height_ * width_ * channels_),
      max_batch_(max_batch) {
  if (example_ <= 0 || model.graph.inputs.size() != 1 || model.graph.outputs.empty()) {
    throw Error(ErrorKind::kUsage,
                fmt::format("a model of family '{}' cannot be served: it takes no images", model.family),
                "serve a model that classifies images; `mlx predict` asks those of rows and text");
  }
  if (max_batch_ < 1) fail(ErrorKind::kUsage, "a batch of {} examples: expected at least 1", max_batch_);
  const auto [graph, weights] = graph::fuse(graph::to_inference(model.graph), *model.weights);
  images_ = graph.inputs.at(0);
  logits_ = graph.outputs.at(0);
  input_name_ = graph.value(images_).name;
  const graph::Dims& dims = graph.value(logits_).dims;
  if (dims.size() != 2 || dims[1].symbolic()) {
    fail(ErrorKind::kUsage, "a model with outputs {} cannot be served: expected [batch, classes]",
         to_text(graph, dims));
  }
  classes_ = dims[1].size;
  if (!model.labels.empty() && static_cast<std::int64_t>(model.labels.size()) != classes_) {
    fail(ErrorKind::kCorrupt, "the model has {} labels for {} classes", model.labels.size(), classes_);
  }
  graph::SessionOptions options;
  options.level = level;
  session_ = std::make_unique<graph::Session>(graph, weights, options, pool);
  batch_.resize(static_cast<std::size_t>(max_batch_ * example_));
}

std::int64_t Predictor::padded(std::int64_t count) const {
  std::int64_t size = 1;
  while (size < count) size *= 2;
  return std::min(size, max_batch_);
}

const float* Predictor::run(std::int64_t count) {
  const std::int64_t size = padded(count);
  std::fill(batch_.begin() + static_cast<std::ptrdiff_t>(count * example_),
            batch_.begin() + static_cast<std::ptrdiff_t>(size * example_), 0.0f);
  session_->run({{images_, batch_.data(), {size, height_, width_, channels_}}});
  return reinterpret_cast<const float*>(session_->output(logits_).data());
}

void Predictor::warm_up() {
  for (std::int64_t size = max_batch_; size >= 1; size /= 2) run(padded(size));
}

}  // namespace mlx::serve
