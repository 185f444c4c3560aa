// How many tokens go through a language model's graph at once. Used by generators.
#pragma once

#include <array>
#include <cstdint>

namespace mlx::infer {

// The numbers of tokens of one sequence that go through the graph at once; no others are ever planned, but those of
// proposals (speculation.h). The rest of a prompt is padded to the next of them: attention is causal, and later tokens
// overwrite the padding's places in the cache. Logits of more tokens than the largest chunk would take more memory than
// the model.
inline constexpr std::array<std::int64_t, 6> kChunks{1, 8, 16, 32, 64, 128};

// The chunk for the first of `tokens` tokens. The cache has room for `room` tokens, at least as many.
constexpr std::int64_t chunk_for(std::int64_t tokens, std::int64_t room) {
  std::int64_t chunk = kChunks[0];
  for (const std::int64_t size : kChunks) {
    if (size > room) break;
    chunk = size;
    if (size >= tokens) break;
  }
  return chunk;
}

}  // namespace mlx::infer
