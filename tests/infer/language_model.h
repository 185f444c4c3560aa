// Small language models.
#pragma once

#include <memory>
#include <string>

#include "../nn/built.h"
#include "graph/weights.h"
#include "kernels/half.h"

namespace mlx::infer::test {

inline constexpr std::int64_t kVocabulary = 13;

// Weights `times` as large as those that training starts from: what is likely differs from prompt to prompt.
inline nn::Model model_of_config(const std::string& config, std::int64_t vocabulary, float times) {
  const nn::Built made = nn::built(config, nn::InputSpec::tokens(vocabulary));
  nn::Model model;
  model.family = made.family;
  model.config = made.config;
  model.graph = made.graph;
  graph::Tensors tensors = nn::initialize(made.graph, made.family, 4);
  for (auto& [name, tensor] : tensors) {
    auto* data = reinterpret_cast<float*>(tensor.data.data());
    if (!name.ends_with("gamma"))
      for (std::int64_t i = 0; i < tensor.shape.count(); ++i) data[i] *= times;
  }
  model.weights = std::make_shared<const graph::Weights>(std::move(tensors));
  return model;
}

inline nn::Model model_of(const std::string& family, std::int64_t context = 12) {
  return model_of_config(
      fmt::format("family = \"{}\"\nlayers = 2\nwidth = 32\nheads = 4\ncontext = {}\ndropout = 0.1\n{}", family,
                  context, family == "llama" ? "kv_heads = 2\n" : ""),
      kVocabulary, 10);
}

// The same with weights that are stored as bf16.
inline nn::Model in_bf16(nn::Model model) {
  graph::Weights::Map weights;
  for (const auto& [name, weight] : model.weights->all()) {
    kernels::Shape shape = weight->shape();
    const auto* const f32 = reinterpret_cast<const float*>(weight->data().data());
    shape.dtype = kernels::DType::kBF16;
    const auto bytes = std::make_shared<Bytes>(shape.bytes());
    for (std::int64_t i = 0; i < shape.count(); ++i)
      reinterpret_cast<kernels::BF16*>(bytes->data())[i] = kernels::to_bf16(f32[i]);
    weights[name] = std::make_shared<const graph::Weight>(
        std::make_shared<const graph::Weight>(shape, *bytes, graph::Backing{bytes}));
  }
  model.weights = std::make_shared<const graph::Weights>(std::move(weights));
  return model;
}

}  // namespace mlx::infer::test
