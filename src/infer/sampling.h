// Chooses the next token from a language model's logits. Used by generate.cpp.
#pragma once

#include <cstdint>
#include <span>

namespace mlx::infer {

struct Sampling {
  double temperature = 1;  // 0: always the most likely token
  std::int64_t top_k = 0;  // keep this many of the most likely tokens (Fan et al. 2018); 0: all
  double top_p = 1;        // keep the most likely tokens that together have this probability (Holtzman et al. 2020)
  std::uint64_t seed = 1;
};

// Draws with the Philox number of (seed, sample, index): the `index`-th token of one of several samples. Equal logits
// are ordered by token. Throws kCorrupt if a logit is NaN or none is finite, kUsage if `sampling` is out of range.
std::int32_t draw(std::span<const float> logits, const Sampling& sampling, std::uint64_t sample, std::uint64_t index);

}  // namespace mlx::infer
