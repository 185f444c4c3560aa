// Weights in blocks: what is written is read again, every bit of a block has a place, and numbers are those of the
// definition.
#include <doctest/doctest.h>

#include <algorithm>

#include "harness.h"
#include "kernels/block_type.h"

namespace mlx::kernels::test {
namespace {

constexpr BlockNumber kAll[] = {kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ2K, kQ3K, kQ4K, kQ5K, kQ6K};

}  // namespace

TEST_CASE("block types: reading and writing a block gives the same bytes, whatever they are") {
  for (const BlockNumber number : kAll) {
    const BlockType& type = *find_block_type(number);
    CAPTURE(type.name);
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      const Tensor bytes = integers(DType::kU8, {type.bytes}, 0, 255, seed);
      const auto* const block = bytes.data<std::uint8_t>();
      UnpackedBlock unpacked;
      unpack_block(type, block, unpacked);
      std::vector<std::uint8_t> written(static_cast<std::size_t>(type.bytes));
      pack_block(type, unpacked, written.data());
      REQUIRE(std::equal(written.begin(), written.end(), block));
    }
  }
  CHECK(find_block_type(9) == nullptr);
  CHECK(find_block_type(15) == nullptr);
}

TEST_CASE("block types: a weight is scale times part times integer, less low times part") {
  for (const BlockNumber number : kAll) {
    const BlockType& type = *find_block_type(number);
    CAPTURE(type.name);
    UnpackedBlock block{};
    block.scale = to_f16(0.5f), block.low = to_f16(0.25f);
    const bool small = type.weights == kSmallBlock;
    for (int part = 0; part < type.weights / type.part; ++part)
      block.parts[part] = static_cast<std::int8_t>(part % 8 + 1),
      block.lows[part] = static_cast<std::uint8_t>(small ? 1 : part % 4);
    for (int i = 0; i < type.weights; ++i) block.integers[i] = static_cast<std::uint8_t>(i * 7 % 4);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(type.bytes));
    pack_block(type, block, bytes.data());
    std::vector<float> weights(static_cast<std::size_t>(type.weights));
    expand_blocks(type, bytes.data(), 1, weights.data());
    for (int i = 0; i < type.weights; ++i) {
      const int part = static_cast<int>(i / type.part);
      const float low = type.lowered ? 0.25f * static_cast<float>(block.lows[part]) : 0.0f;
      REQUIRE(weights[static_cast<std::size_t>(i)] ==
              0.5f * static_cast<float>(part % 8 + 1) * static_cast<float>(i * 7 % 4 - type.offset) - low);
    }
  }
}

}  // namespace mlx::kernels::test
