// Weights in blocks that share a scale, as GGUF files have them (ggml-common.h and ggml-quants.c of the ggml project
// define them). Large blocks ("K-quants") have 256 weights, of which each 16 or 32 have a part of the scale, and in
// some types a part of what they are lowered by. Small blocks have 32. Used by kernels that read such weights, and by
// what reads and writes GGUF files.
#pragma once

#include <cstdint>

#include "kernels/half.h"

namespace mlx::kernels {

inline constexpr std::int64_t kBlockWeights = 256, kSmallBlock = 32;
inline constexpr int kMostParts = 16;

// The numbers of ggml_type.
enum BlockNumber : std::int64_t {
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2K = 10,
  kQ3K = 11,
  kQ4K = 12,
  kQ5K = 13,
  kQ6K = 14
};

struct BlockType {
  std::int64_t number;
  const char* name;      // "Q4_K"
  std::int64_t weights;  // of a block: kBlockWeights or kSmallBlock
  std::int64_t bytes;    // of a block
  std::int64_t part;     // weights that share a part of the scale
  int offset;            // what is taken from each stored integer
  bool lowered;
};
const BlockType* find_block_type(std::int64_t number);  // null for another

// A block as numbers: weight i is scale · parts[p] · (integers[i] - offset) - low · lows[p] with p = i / part. Small
// blocks have one part, 1, and one low, 1: `low` is what is added in the file, with the other sign.
struct UnpackedBlock {
  F16 scale, low;
  std::int8_t parts[kMostParts];
  std::uint8_t lows[kMostParts];
  std::uint8_t integers[kBlockWeights];
};
void unpack_block(const BlockType& type, const std::uint8_t* block, UnpackedBlock& to);
void pack_block(const BlockType& type, const UnpackedBlock& from, std::uint8_t* block);
// The weights of `count` blocks in f32, bit for bit as the type is defined.
void expand_blocks(const BlockType& type, const std::uint8_t* blocks, std::int64_t count, float* to);

}  // namespace mlx::kernels
