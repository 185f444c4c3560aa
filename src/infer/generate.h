// Text out of a language model: the prompt is taken in chunks, then one token follows the other with a cache of keys
// and values. An imported graph of primitive operations has no cache: all tokens so far go through it for each new one.
// Used by `mlx predict` and by serving.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/progress.h"
#include "infer/model.h"
#include "infer/sampling.h"

namespace mlx::infer {

struct Generated {
  std::vector<std::int32_t> tokens;  // without the prompt
  bool stopped = false;              // they end with the stop sequence
};

// One thread uses it at a time; generators of one model share its weights. What it gives depends on the model, prompt,
// sampling and sample alone.
class Generator {
 public:
  // kUsage where the model is no language model. `model` outlives the generator. `check` is called between the parts of
  // a prompt and between tokens; what it throws ends the generation.
  explicit Generator(
      const Model& model, std::function<void()> check = [] {});
  ~Generator();
  std::int64_t context() const;
  void warm_up();  // plans every number of tokens that go through the graph at once
  // How many sizes were planned so far: few, whatever the prompts' lengths are.
  std::int64_t plans() const;
  // At most `count` tokens, fewer where they end with `stop` (empty: never); `emit` gets each as it is drawn, and what
  // it throws ends the generation. Where the context is full it begins again with the last half of what there is; of a
  // longer prompt the end counts. The prompt has at least one token.
  Generated generate(const std::vector<std::int32_t>& prompt, std::int64_t count, const Sampling& sampling,
                     std::uint64_t sample, const std::vector<std::int32_t>& stop,
                     const std::function<void(std::int32_t)>& emit);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The tokens that a text goes on from: the prompt's, or where there is none those of a line's end. kUsage naming `what`
// where the prompt has a character that the tokenizer does not know.
std::vector<std::int32_t> prompt_tokens(const data::Tokenizer& tokenizer, const std::string& prompt,
                                        std::string_view what);

}  // namespace mlx::infer
