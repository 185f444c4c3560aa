// Chooses the next token from a language model's logits, and says how likely it was. Used by text_writer.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace mlx::infer {

inline constexpr double kLeastRepetition = 0.01;

// In the order in which it is applied.
struct Sampling {
  std::vector<std::pair<std::int32_t, double>> bias{};  // added to the logits of these tokens
  // Of tokens that occurred before, in prompt or text: positive logits are divided by it, others multiplied (Keskar et
  // al. 2019); 1: as they are.
  double repetition = 1;
  // Taken from the logit of a token for each time that it is in the text, and once if it is there at all.
  double frequency = 0, presence = 0;
  double temperature = 1;  // 0: always the most likely token
  std::int64_t top_k = 0;  // keep this many of the most likely tokens (Fan et al. 2018); 0: all
  // Keep the tokens whose information is closest to the entropy and that together have this probability (Meister et al.
  // 2022).
  double typical = 1;
  double top_p = 1;  // keep the most likely tokens that together have this probability (Holtzman et al. 2020)
  double min_p = 0;  // keep tokens with at least this share of the largest probability (Nguyen et al. 2024)
  std::uint64_t seed = 1;
};

// The tokens before the one that is drawn.
struct Before {
  std::span<const std::int32_t> prompt{}, text{};
};

// A bit for each token that may be drawn, 64 in a word; tokens behind the last word may not. Empty: all may.
using TokenMask = std::span<const std::uint64_t>;

// Draws with the Philox number of (seed, sample, index): the `index`-th token of one of several samples. Equal logits
// are ordered by token. Throws kCorrupt if a logit is NaN or none that may be drawn is finite, kUsage if `sampling` is
// out of range or names a token that there is not.
std::int32_t draw(std::span<const float> logits, const Sampling& sampling, std::uint64_t sample, std::uint64_t index,
                  const Before& before = {}, TokenMask allowed = {});

struct LogProbability {
  std::int32_t token = 0;
  double value = 0;  // natural logarithm
};
struct LogProbabilities {
  LogProbability drawn;
  std::vector<LogProbability> top;  // from the likeliest on; equal ones are ordered by token
};
// Of the distribution that the model predicts: the softmax of its logits as they are, before temperature, penalties and
// whatever else draw() does.
LogProbabilities log_probabilities(std::span<const float> logits, std::int32_t drawn, std::int64_t top);

}  // namespace mlx::infer
