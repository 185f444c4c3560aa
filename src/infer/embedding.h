// Texts as vectors: the states of a language model behind its last norm, of which its final layer would make logits.
// Used by `mlx predict --embed`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "infer/generate.h"
#include "infer/model.h"

namespace mlx::infer {

// The same model without its final layer: it gives states in the place of logits. Throws kUsage if it is no language
// model, or does not end with a linear layer.
nn::Model without_head(nn::Model model);

enum class Pooling { kLast, kMean };  // the state of the last token, or the mean of all

// Used by one thread at a time. A vector depends on nothing but the model, its tokens and how they are pooled.
class Embedder {
 public:
  // `model`: one without its head, which outlives it. `unit`: vectors get the length 1. `check` as of Generator.
  Embedder(const Model& model, Pooling pooling, bool unit, std::function<void()> check);

  std::int64_t width() const { return width_; }
  std::int64_t context() const { return generator_.context(); }
  // Of 1 to context() tokens. Throws kCorrupt if a number is not finite.
  std::vector<float> embed(const std::vector<std::int32_t>& tokens);

 private:
  Generator generator_;
  std::int64_t width_;
  Pooling pooling_;
  bool unit_;
};

}  // namespace mlx::infer
