// Random numbers for the changes to one example: a stream of their own for each purpose, so that one change does not
// move the draws of another.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/philox.h"

namespace mlx::data {

// What the numbers depend on, and nothing else.
struct DrawKey {
  std::uint64_t seed = 0, epoch = 0, index = 0;
};

// Numbers in the order in which they are asked for.
class Draws {
 public:
  Draws(std::uint64_t stream, const DrawKey& key) : stream_(stream), key_(key) {}

  std::uint32_t bits() {
    if (used_ == block_.size()) {
      block_ = kernels::random_block(key_.seed, stream_++, key_.epoch, key_.index);
      used_ = 0;
    }
    return block_[used_++];
  }
  double between(double least, double most) { return least + (most - least) * (bits() * 0x1p-32); }  // without `most`
  std::int64_t below(std::int64_t count) {                                                           // of at most 2^31
    return static_cast<std::int64_t>((std::uint64_t{bits()} * static_cast<std::uint64_t>(count)) >> 32);
  }
  bool coin() { return bits() >> 31 != 0; }

 private:
  std::uint64_t stream_;
  DrawKey key_;
  std::array<std::uint32_t, 4> block_{};
  std::size_t used_ = 4;
};

inline constexpr std::uint64_t kCropStream = std::uint64_t{0x63726F70} << 16;         // "crop"
inline constexpr std::uint64_t kColourStream = std::uint64_t{0x636F6C6F} << 16;       // "colo"
inline constexpr std::uint64_t kRotateStream = std::uint64_t{0x726F7461} << 16;       // "rota"
inline constexpr std::uint64_t kRandAugmentStream = std::uint64_t{0x72616E64} << 16;  // "rand"

}  // namespace mlx::data
