// The states of an encoder, of many texts together. Used by embedding.cpp and `mlx predict --logits`.
//
// A text's states have the same bits whatever other texts there are: its length alone says how many rows the graph is
// planned for and how many texts share a pass, and a text begins at a multiple of its own length among these rows.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "infer/model.h"

namespace mlx::infer {

using Tokens = std::vector<std::int32_t>;

// Used by one thread at a time. `model` outlives it. `check` is called between passes; if it throws, the work ends.
class Encoder {
 public:
  // Throws kUsage if the model is no encoder.
  explicit Encoder(
      const Model& model, std::function<void()> check = [] {});
  ~Encoder();

  std::int64_t context() const;
  std::int64_t width() const;
  // Passes the number of a text and its states, a row for each token, to `emit`: each text once, in any order. A text
  // has 1 to context() tokens.
  void encode(std::span<const Tokens> texts,
              const std::function<void(std::size_t text, std::span<const float> states)>& emit);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlx::infer
