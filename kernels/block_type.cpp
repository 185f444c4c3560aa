// See block_type.h. Reading and writing go side by side. Integers are moved eight at a time, because loading a model
// unpacks all of its weights.
#include "kernels/block_type.h"

#include <cstring>

namespace mlx::kernels {
namespace {

constexpr BlockType kBlockTypes[] = {
    {kQ4_0, "Q4_0", kSmallBlock, 18, 32, 8, false},   {kQ4_1, "Q4_1", kSmallBlock, 20, 32, 0, true},
    {kQ5_0, "Q5_0", kSmallBlock, 22, 32, 16, false},  {kQ5_1, "Q5_1", kSmallBlock, 24, 32, 0, true},
    {kQ8_0, "Q8_0", kSmallBlock, 34, 32, 128, false}, {kQ2K, "Q2_K", kBlockWeights, 84, 16, 0, true},
    {kQ3K, "Q3_K", kBlockWeights, 110, 16, 4, false}, {kQ4K, "Q4_K", kBlockWeights, 144, 32, 0, true},
    {kQ5K, "Q5_K", kBlockWeights, 176, 32, 0, true},  {kQ6K, "Q6_K", kBlockWeights, 210, 16, 32, false},
};

// Where the numbers in f16 of a block stand, and its parts; no low: the scale's place.
struct Places {
  std::int64_t scale, low, parts;
};
Places places_of(std::int64_t number) {
  switch (number) {
    case kQ2K:
      return {80, 82, 0};
    case kQ3K:
      return {108, 108, 96};
    case kQ6K:
      return {208, 208, 192};
    default:
      return {0, 2, 4};
  }
}

// Some bits of each of 32 bytes in a row.
struct Plane {
  std::int64_t at;
  int shift, bits;
};
// The planes of the integers of inputs 32 · of and 31 after it: their lower bits, then their upper ones (0: none).
struct Planes {
  Plane low, high;
};
Planes planes_of(std::int64_t number, int of) {
  const int half = of / 4, quarter = of % 4;
  switch (number) {
    case kQ2K:
      return {{16 + half * 32, quarter * 2, 2}, {0, 0, 0}};
    case kQ3K:
      return {{32 + half * 32, quarter * 2, 2}, {0, of, 1}};
    case kQ4K:
      return {{16 + of / 2 * 32, of % 2 * 4, 4}, {0, 0, 0}};
    case kQ5K:
      return {{48 + of / 2 * 32, of % 2 * 4, 4}, {16, of, 1}};
    default:
      return {{half * 64 + quarter % 2 * 32, quarter / 2 * 4, 4}, {128 + half * 32, quarter * 2, 2}};
  }
}
constexpr int kRun = 32, kRuns = kBlockWeights / kRun;

// Adds `bits` bits of each of 32 bytes, from bit `from_shift` on, to those at `to` from bit `to_shift` on.
void add_bits(const std::uint8_t* from, int from_shift, int bits, std::uint8_t* to, int to_shift) {
  using Eight = std::uint64_t;
  const Eight mask = ((Eight{1} << bits) - 1) * 0x0101010101010101;
  for (int i = 0; i < kRun; i += static_cast<int>(sizeof(Eight))) {
    Eight source = 0, sum = 0;
    std::memcpy(&source, from + i, sizeof source);
    std::memcpy(&sum, to + i, sizeof sum);
    sum |= (source >> from_shift & mask) << to_shift;
    std::memcpy(to + i, &sum, sizeof sum);
  }
}

// Parts of six bits in twelve bytes: eight of the scale and eight of the low (Q4_K, Q5_K).
void take_pairs(const std::uint8_t* packed, UnpackedBlock& to) {
  for (int of = 0; of < 4; ++of) {
    to.parts[of] = static_cast<std::int8_t>(packed[of] & 63), to.lows[of] = packed[of + 4] & 63;
    to.parts[of + 4] = static_cast<std::int8_t>((packed[of + 8] & 15) | packed[of] >> 6 << 4);
    to.lows[of + 4] = static_cast<std::uint8_t>(packed[of + 8] >> 4 | packed[of + 4] >> 6 << 4);
  }
}
void put_pairs(const UnpackedBlock& from, std::uint8_t* packed) {
  for (int of = 0; of < 4; ++of) {
    packed[of] = static_cast<std::uint8_t>(from.parts[of] | from.parts[of + 4] >> 4 << 6);
    packed[of + 4] = static_cast<std::uint8_t>(from.lows[of] | from.lows[of + 4] >> 4 << 6);
    packed[of + 8] = static_cast<std::uint8_t>((from.parts[of + 4] & 15) | (from.lows[of + 4] & 15) << 4);
  }
}
// Sixteen of the scale in as many bytes, 32 more than they are (Q3_K).
constexpr int kLess = 32;
void take_six(const std::uint8_t* packed, UnpackedBlock& to) {
  for (int of = 0; of < kMostParts; ++of) {
    const int low = of < 8 ? packed[of] & 15 : packed[of - 8] >> 4, high = packed[8 + of % 4] >> (of / 4 * 2) & 3;
    to.parts[of] = static_cast<std::int8_t>((low | high << 4) - kLess);
  }
}
void put_six(const UnpackedBlock& from, std::uint8_t* packed) {
  for (int of = 0; of < kMostParts; ++of) {
    const int part = from.parts[of] + kLess;
    packed[of % 8] |= static_cast<std::uint8_t>((part & 15) << (of / 8 * 4));
    packed[8 + of % 4] |= static_cast<std::uint8_t>(part >> 4 << (of / 4 * 2));
  }
}

// Small blocks: the scale, what is added, the fifth bits of all, and bytes of which the lower halves come first.
constexpr std::uint16_t kSign = 0x8000;
constexpr int kHalf = kSmallBlock / 2;

void unpack_small(const BlockType& type, const std::uint8_t* block, UnpackedBlock& to) {
  constexpr int kNibble = 4;
  std::memcpy(&to.scale, block, sizeof to.scale);
  block += sizeof to.scale;
  to.low = {}, to.parts[0] = 1, to.lows[0] = 1;
  if (type.lowered) {
    std::memcpy(&to.low, block, sizeof to.low);
    to.low.bits ^= kSign, block += sizeof to.low;
  }
  if (type.number == kQ8_0) {
    for (int i = 0; i < kSmallBlock; ++i) to.integers[i] = block[i] ^ 128;
    return;
  }
  std::uint32_t fifths = 0;
  if (type.number == kQ5_0 || type.number == kQ5_1) {
    std::memcpy(&fifths, block, sizeof fifths);
    block += sizeof fifths;
  }
  for (int i = 0; i < kHalf; ++i) {
    to.integers[i] = static_cast<std::uint8_t>((block[i] & 15) | (fifths >> i & 1) << kNibble);
    to.integers[i + kHalf] = static_cast<std::uint8_t>(block[i] >> kNibble | (fifths >> (i + kHalf) & 1) << kNibble);
  }
}

void pack_small(const BlockType& type, const UnpackedBlock& from, std::uint8_t* block) {
  constexpr int kNibble = 4;
  std::memcpy(block, &from.scale, sizeof from.scale);
  block += sizeof from.scale;
  if (type.lowered) {
    const F16 added{static_cast<std::uint16_t>(from.low.bits ^ kSign)};
    std::memcpy(block, &added, sizeof added);
    block += sizeof added;
  }
  if (type.number == kQ8_0) {
    for (int i = 0; i < kSmallBlock; ++i) block[i] = from.integers[i] ^ 128;
    return;
  }
  if (type.number == kQ5_0 || type.number == kQ5_1) {
    std::uint32_t fifths = 0;
    for (int i = 0; i < kSmallBlock; ++i) fifths |= std::uint32_t{from.integers[i]} >> kNibble << i;
    std::memcpy(block, &fifths, sizeof fifths);
    block += sizeof fifths;
  }
  for (int i = 0; i < kHalf; ++i)
    block[i] = static_cast<std::uint8_t>((from.integers[i] & 15) | from.integers[i + kHalf] << kNibble);
}

}  // namespace

const BlockType* find_block_type(std::int64_t number) {
  for (const BlockType& type : kBlockTypes)
    if (type.number == number) return &type;
  return nullptr;
}

void unpack_block(const BlockType& type, const std::uint8_t* block, UnpackedBlock& to) {
  if (type.weights == kSmallBlock) return unpack_small(type, block, to);
  const Places places = places_of(type.number);
  std::memcpy(&to.scale, block + places.scale, sizeof to.scale);
  std::memcpy(&to.low, block + places.low, sizeof to.low);
  const std::uint8_t* const parts = block + places.parts;
  if (type.number == kQ4K || type.number == kQ5K) take_pairs(parts, to);
  if (type.number == kQ3K) take_six(parts, to);
  if (type.number == kQ6K) std::memcpy(to.parts, parts, sizeof to.parts);
  for (int of = 0; type.number == kQ2K && of < kMostParts; ++of)
    to.parts[of] = static_cast<std::int8_t>(parts[of] & 15), to.lows[of] = parts[of] >> 4;
  std::memset(to.integers, 0, sizeof to.integers);
  for (int of = 0; of < kRuns; ++of) {
    const Planes planes = planes_of(type.number, of);
    const Plane &low = planes.low, &high = planes.high;
    add_bits(block + low.at, low.shift, low.bits, to.integers + of * kRun, 0);
    if (high.bits > 0) add_bits(block + high.at, high.shift, high.bits, to.integers + of * kRun, low.bits);
  }
}

void pack_block(const BlockType& type, const UnpackedBlock& from, std::uint8_t* block) {
  if (type.weights == kSmallBlock) return pack_small(type, from, block);
  std::memset(block, 0, static_cast<std::size_t>(type.bytes));
  const Places places = places_of(type.number);
  if (type.lowered) std::memcpy(block + places.low, &from.low, sizeof from.low);
  std::memcpy(block + places.scale, &from.scale, sizeof from.scale);
  std::uint8_t* const parts = block + places.parts;
  if (type.number == kQ4K || type.number == kQ5K) put_pairs(from, parts);
  if (type.number == kQ3K) put_six(from, parts);
  if (type.number == kQ6K) std::memcpy(parts, from.parts, sizeof from.parts);
  for (int of = 0; type.number == kQ2K && of < kMostParts; ++of)
    parts[of] = static_cast<std::uint8_t>(from.parts[of] | from.lows[of] << 4);
  for (int of = 0; of < kRuns; ++of) {
    const Planes planes = planes_of(type.number, of);
    const Plane &low = planes.low, &high = planes.high;
    add_bits(from.integers + of * kRun, 0, low.bits, block + low.at, low.shift);
    if (high.bits > 0) add_bits(from.integers + of * kRun, low.bits, high.bits, block + high.at, high.shift);
  }
}

void expand_blocks(const BlockType& type, const std::uint8_t* blocks, std::int64_t count, float* to) {
  UnpackedBlock block;
  for (std::int64_t at = 0; at < count; ++at, blocks += type.bytes, to += type.weights) {
    unpack_block(type, blocks, block);
    const float scale = widen(block.scale), low = type.lowered ? widen(block.low) : 0.0f;
    for (std::int64_t i = 0; i < type.weights; ++i) {
      const std::int64_t part = i / type.part;
      const float by = scale * static_cast<float>(block.parts[part]);
      const float number = by * static_cast<float>(block.integers[i] - type.offset);
      to[i] = type.lowered ? number - low * static_cast<float>(block.lows[part]) : number;
    }
  }
}

}  // namespace mlx::kernels
