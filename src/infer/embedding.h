// Texts as vectors: the states of a language model behind its last norm, of which its final layer would make logits, or
// those of an encoder. Used by `mlx predict --embed`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "infer/encoder.h"
#include "infer/generate.h"
#include "infer/model.h"

namespace mlx::infer {

// The same model without its final layer: it gives states in the place of logits. An encoder is left as it is. Throws
// kUsage if it is neither it nor a language model that ends with a linear layer.
nn::Model without_head(nn::Model model);

enum class Pooling { kLast, kMean, kFirst, kMax };  // the state of the last or first token, or of all
inline constexpr const char* kPoolings[] = {"last", "mean", "cls", "max"};
const char* name_of(Pooling pooling);

// How vectors are made of states.
struct Pooled {
  Pooling pooling = Pooling::kLast;
  bool unit = false;  // they get the length 1
};
// As the model's own files say; else the last token of a language model, and the mean of an encoder's.
Pooled pooling_of(const nn::Model& model);
Pooling pooling_named(const std::string& name);  // of kPoolings

// The first tokens of a text, `most` with those that the tokenizer puts around it. `whole` has these too, `bare` does
// not. nullopt if no token of the text has room.
std::optional<Tokens> cut_to(std::size_t most, const Tokens& whole, const Tokens& bare);

// Used by one thread at a time. A vector depends on nothing but the model, its tokens and how they are pooled.
class Embedder {
 public:
  // `model`: one without its head, which outlives it. `check` as of Generator.
  Embedder(const Model& model, Pooled pooled, std::function<void()> check);

  std::int64_t width() const { return width_; }
  std::int64_t context() const { return encoder_ ? encoder_->context() : generator_->context(); }
  // Of texts of 1 to context() tokens. Throws kCorrupt if a number is not finite.
  std::vector<std::vector<float>> embed(std::span<const Tokens> texts);

 private:
  std::optional<Generator> generator_;
  std::optional<Encoder> encoder_;
  std::int64_t width_;
  Pooled pooled_;
};

}  // namespace mlx::infer
