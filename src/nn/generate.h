// Text out of a language model: the prompt is taken in chunks, then one token follows the other with a cache of keys
// and values. Used by `mlx predict`.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "kernels/table.h"
#include "nn/model.h"
#include "nn/sampling.h"

namespace mlx::nn {

struct Generated {
  std::vector<std::int32_t> tokens;  // without the prompt
  bool stopped = false;              // they end with the stop sequence
};

// One thread uses it at a time. What it gives depends on the model, prompt, sampling and sample alone.
class Generator {
 public:
  // kUsage where the model is none of language. `pool` outlives the generator.
  Generator(const Model& model, kernels::Level level, Pool& pool);
  ~Generator();
  std::int64_t context() const;
  // How many sizes were planned so far: few, whatever the prompts' lengths are.
  std::int64_t plans() const;
  // At most `count` tokens, fewer where they end with `stop` (empty: never); `emit` gets each as it is drawn. Where the
  // context is full it begins again with the last half of what there is; of a longer prompt the end counts. The prompt
  // has at least one token.
  Generated generate(const std::vector<std::int32_t>& prompt, std::int64_t count, const Sampling& sampling,
                     std::uint64_t sample, const std::vector<std::int32_t>& stop,
                     const std::function<void(std::int32_t)>& emit);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlx::nn
