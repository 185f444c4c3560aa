// Text generation with a language model: the prompt is processed in chunks, then tokens one by one, with a cache of
// keys and values. An imported graph of primitive operations has no cache: it processes the whole sequence for each new
// token. Used by `mlx predict` and by serving.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/progress.h"
#include "infer/model.h"
#include "infer/sampling.h"
#include "infer/text_writer.h"

namespace mlx::infer {

// Used by one thread at a time; generators of one model share its weights. The result depends only on the model,
// prompt, sampling and sample.
class Generator {
 public:
  // Throws kUsage if the model is not a language model. `model` must outlive the generator. `check` is called between
  // the chunks of a prompt and between tokens; if it throws, the generation ends.
  explicit Generator(
      const Model& model, std::function<void()> check = [] {});
  ~Generator();
  std::int64_t context() const;
  void prepare();                   // packs the weights, which the first pass would do
  void warm_up();                   // plans every chunk size
  std::size_t cache_bytes() const;  // of keys and values
  // The number of sizes planned so far: small, whatever the prompts' lengths.
  std::int64_t plans() const;
  // Writes a text, and passes each token to `request.emit` when it is drawn; if that throws, the generation ends. When
  // the context is full it restarts from the last half of the tokens. Of a longer prompt only the end is used. The
  // prompt must have at least one token. It does not speculate.
  Generated generate(const TextRequest& request);
  Generated generate(const std::vector<std::int32_t>& prompt, std::int64_t count, const Sampling& sampling,
                     std::uint64_t sample, const std::vector<std::int32_t>& stop,
                     const std::function<void(std::int32_t)>& emit);
  // The logits behind the last of `tokens`, at least one and at most context(); valid until the next call. What they
  // have in common with those of the last call is not computed again.
  std::span<const float> follow(std::span<const std::int32_t> tokens);
  // The same behind each of `tokens` from number `first` on, a row at a time. `afresh`: nothing of the last call is
  // used, so that the bits depend on the calls since then alone.
  void follow_each(std::span<const std::int32_t> tokens, std::size_t first, bool afresh,
                   const std::function<void(std::span<const float>)>& emit);
  // The logits behind each of `tokens`, at most context() of them, computed as those of a prompt are. Passes rows of
  // one number for each token of the vocabulary to `emit`, some at a time.
  void logits(const std::vector<std::int32_t>& tokens, const std::function<void(std::span<const float>)>& emit);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The tokens to continue from: the prompt's, or those of a line end if the prompt is empty. `special`: with those that
// the tokenizer puts around a text, such as one for its beginning. Throws kUsage, naming `what`, if the tokenizer does
// not know a character of the prompt.
std::vector<std::int32_t> prompt_tokens(const data::Tokenizer& tokenizer, const std::string& prompt,
                                        std::string_view what, bool special = false);

}  // namespace mlx::infer
