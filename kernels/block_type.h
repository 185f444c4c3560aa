// Weights in blocks of 256 that share a scale, as GGUF files have them ("K-quants"; ggml-common.h and ggml-quants.c of
// the ggml project define them). Each 16 or 32 weights of a block have a part of the scale, and in some types a part of
// what they are lowered by. Used by kernels that read such weights, and by what reads and writes GGUF files.
#pragma once

#include <cstdint>

#include "kernels/half.h"

namespace mlx::kernels {

inline constexpr std::int64_t kBlockWeights = 256;
inline constexpr int kMostParts = 16;

// The numbers of ggml_type.
enum BlockNumber : std::int64_t { kQ2K = 10, kQ3K = 11, kQ4K = 12, kQ5K = 13, kQ6K = 14 };

struct BlockType {
  std::int64_t number;
  const char* name;    // "Q4_K"
  std::int64_t bytes;  // of a block
  std::int64_t part;   // weights that share a part of the scale
  int offset;          // what is taken from each stored integer
  bool lowered;
};
const BlockType* find_block_type(std::int64_t number);  // null for another

// A block as numbers: weight i is scale · parts[p] · (integers[i] - offset) - low · lows[p] with p = i / part.
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
