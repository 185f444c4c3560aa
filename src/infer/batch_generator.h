// Generates many texts with one language model at the same time. Each step computes a chunk of one prompt, then one
// token of every other text in one pass through the network (iteration-level scheduling, Yu et al. 2022): the weights
// are read once for all of them. Texts that begin with the same tokens share their keys and values (cache_blocks.h).
//
// A text that asks for it and is alone in its turn speculates (speculation.h): a pass computes several of its tokens.
//
// A text's tokens depend only on model, prompt, sampling, grammar and sample: they are the tokens that Generator draws,
// whatever else is in the batch. That needs kernels whose rows have the same bits in any company (can_batch). Used by
// `mlx predict` and by serving.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "infer/generate.h"
#include "infer/model.h"
#include "infer/text_writer.h"

namespace mlx::infer {

// Whether texts of this model may be generated together: it decodes with a cache in the host's memory, and a row of
// each of its products has the same bits whatever other rows there are.
bool can_batch(const Model& model);

struct FinishedText {
  std::int64_t id = 0;
  Generated text;
  std::exception_ptr error;  // null if there is none
};

// Positions that a cache must have room for while this text is generated, if it shares none with others.
std::int64_t cache_positions(const Model& model, const TextRequest& request);
// Bytes of each position of a cache.
std::int64_t cache_position_bytes(const Model& model);

// Used by one thread at a time. `model` outlives it.
class BatchGenerator {
 public:
  static constexpr std::int64_t kMostTexts = 16;  // that one pass decodes; others take turns

  // `positions`: how many the cache has room for, of all texts together. Throws kUsage unless can_batch().
  BatchGenerator(const Model& model, std::int64_t positions);
  ~BatchGenerator();

  std::int64_t context() const;
  // Whether the cache has room for it beside the texts that have begun.
  bool has_room(const TextRequest& request) const;
  // Begins a text and returns its number. has_room() must hold.
  std::int64_t start(TextRequest request);
  // Ends a text without a result.
  void cancel(std::int64_t id);
  // Goes on by one step; returns the texts that it finished.
  std::vector<FinishedText> step();

  std::size_t cache_bytes() const;        // of all keys and values
  std::int64_t texts() const;             // begun and not finished
  std::int64_t shared_positions() const;  // of prompts, that were not computed because other texts had them
  void prepare();                         // packs the weights, which the first step would do
  void warm_up();                         // plans every size

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlx::infer
