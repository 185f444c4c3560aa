// One function for each type. Products and sums are rounded in the order of the format's own definition, so that the
// numbers are those of other programs, bit for bit.

#include "nn/gguf_blocks.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "kernels/half.h"

namespace mlx::nn {
namespace {

using kernels::DType;
using Block = const std::uint8_t*;

enum : std::uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kBF16 = 30
};
constexpr GgufType kGgufTypes[] = {
    {kF32, "F32", GgufForm::kFloat, DType::kF32, 1, 4},
    {kF16, "F16", GgufForm::kFloat, DType::kF16, 1, 2},
    {kBF16, "BF16", GgufForm::kFloat, DType::kBF16, 1, 2},
    {kQ8_0, "Q8_0", GgufForm::kEight, DType::kF32, 32, 34},
    {kQ5_0, "Q5_0", GgufForm::kEight, DType::kF32, 32, 22},
    {kQ4_0, "Q4_0", GgufForm::kFour, DType::kF32, 32, 18},
    {kQ4_1, "Q4_1", GgufForm::kExpanded, DType::kF32, 32, 20, 0, 2},
    {kQ5_1, "Q5_1", GgufForm::kExpanded, DType::kF32, 32, 24, 0, 2},
    {kQ2_K, "Q2_K", GgufForm::kExpanded, DType::kF32, 256, 84, 80, 82},
    {kQ3_K, "Q3_K", GgufForm::kExpanded, DType::kF32, 256, 110, 108},
    {kQ4_K, "Q4_K", GgufForm::kExpanded, DType::kF32, 256, 144, 0, 2},
    {kQ5_K, "Q5_K", GgufForm::kExpanded, DType::kF32, 256, 176, 0, 2},
    {kQ6_K, "Q6_K", GgufForm::kExpanded, DType::kF32, 256, 210, 208},
};

struct OtherType {
  std::uint32_t number;
  const char* name;
};
constexpr OtherType kOtherTypes[] = {
    {9, "Q8_1"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"},
    {21, "IQ3_S"}, {22, "IQ2_S"}, {23, "IQ4_XS"},  {24, "I8"},     {25, "I16"},     {26, "I32"},   {27, "I64"},
    {28, "F64"},   {29, "IQ1_M"}, {34, "TQ1_0"},   {35, "TQ2_0"},  {39, "MXFP4"},
};

std::uint16_t bits_at(Block at) {
  return load_little_endian<std::uint16_t>(at);
}
float half_at(Block at) {
  return kernels::widen(kernels::F16{bits_at(at)});
}

// The 32 integers of a block with four bits each, from the first halves of bytes to their second ones; five bits with
// those of `high`.
template <typename Number>
void spread(Block fours, std::uint32_t high, int offset, Number* to) {
  constexpr int kHalf = 16, kFifth = 4;
  for (int i = 0; i < kHalf; ++i) {
    const auto low = static_cast<int>((fours[i] & 15) | ((high >> i) & 1) << kFifth);
    const auto later = static_cast<int>((fours[i] >> 4) | ((high >> (i + kHalf)) & 1) << kFifth);
    to[i] = static_cast<Number>(low - offset), to[i + kHalf] = static_cast<Number>(later - offset);
  }
}

void expand_low(const GgufType& type, Block block, float* to) {
  const bool five = type.number == kQ5_1;
  const float scale = half_at(block), low = half_at(block + 2);
  spread(block + (five ? 8 : 4), five ? load_little_endian<std::uint32_t>(block + 4) : 0, 0, to);
  for (int i = 0; i < 32; ++i) to[i] = to[i] * scale + low;
}

// Two bits each, and of each 16 a scale and what they are lowered by, four bits both.
void expand_2(Block block, float* to) {
  const Block scales = block, twos = block + 16;
  const float scale = half_at(block + 80), low = half_at(block + 82);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, shift = i % 128 / 32 * 2, part = scales[i / 16];
    const int number = (twos[half * 32 + i % 32] >> shift) & 3;
    const float by = scale * static_cast<float>(part & 15), lower = low * static_cast<float>(part >> 4);
    to[i] = by * static_cast<float>(number) - lower;
  }
}

// Two bits each and a third one that takes 4 away where it is not set; of each 16 a scale of six bits.
void expand_3(Block block, float* to) {
  const Block thirds = block, twos = block + 32, packed = block + 96;
  const float scale = half_at(block + 108);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, shift = i % 128 / 32 * 2, of = i / 16;
    const int low = of < 8 ? packed[of] & 15 : packed[of - 8] >> 4, high = (packed[8 + of % 4] >> (of / 4 * 2)) & 3;
    const int third = (thirds[i % 32] >> (i / 32)) & 1;
    const int number = ((twos[half * 32 + i % 32] >> shift) & 3) - (third ? 0 : 4);
    to[i] = scale * static_cast<float>((low | high << 4) - 32) * static_cast<float>(number);
  }
}

// The scale of 32 numbers, and what they are lowered by: eight pairs of six bits in twelve bytes.
struct SixBits {
  int scale, low;
};
SixBits six_bits_of(Block packed, int of) {
  if (of < 4) return {packed[of] & 63, packed[of + 4] & 63};
  return {(packed[of + 4] & 15) | (packed[of - 4] >> 6) << 4, (packed[of + 4] >> 4) | (packed[of] >> 6) << 4};
}

void expand_4_or_5(const GgufType& type, Block block, float* to) {
  const bool five = type.number == kQ5_K;
  const float scale = half_at(block), low = half_at(block + 2);
  const Block packed = block + 4, fifths = block + 16, fours = block + (five ? 48 : 16);
  for (int of = 0; of < 8; ++of) {
    const SixBits six = six_bits_of(packed, of);
    const float by = scale * static_cast<float>(six.scale), lower = low * static_cast<float>(six.low);
    for (int i = 0; i < 32; ++i) {
      int number = (fours[of / 2 * 32 + i] >> (of % 2 * 4)) & 15;
      if (five) number += ((fifths[i] >> of) & 1) * 16;
      to[of * 32 + i] = by * static_cast<float>(number) - lower;
    }
  }
}

// Four bits and two more; of each 16 a signed scale.
void expand_6(Block block, float* to) {
  const Block fours = block, twos = block + 128, scales = block + 192;
  const float scale = half_at(block + 208);
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, quarter = i % 128 / 32, at = i % 32;
    const int low = (fours[half * 64 + quarter % 2 * 32 + at] >> (quarter / 2 * 4)) & 15;
    const int high = (twos[half * 32 + at] >> (quarter * 2)) & 3;
    const float by = scale * static_cast<float>(static_cast<std::int8_t>(scales[i / 16]));
    to[i] = by * static_cast<float>((low | high << 4) - 32);
  }
}

void expand_float(const GgufType& type, Block from, float* to) {
  if (type.number == kF32) std::memcpy(to, from, sizeof *to);
  if (type.number == kF16) *to = half_at(from);
  if (type.number == kBF16) *to = kernels::widen(kernels::BF16{bits_at(from)});
}

void expand_groups(const GgufType& type, Block block, float* to) {
  std::array<std::int8_t, 32> integers{};
  const float scale = kernels::widen(kernels::F16{integers_of_block(type, block, integers.data())});
  for (std::size_t i = 0; i < integers.size(); ++i) to[i] = static_cast<float>(integers[i]) * scale;
}

void expand_block(const GgufType& type, Block block, float* to) {
  switch (type.number) {
    case kQ4_0:
    case kQ5_0:
    case kQ8_0:
      return expand_groups(type, block, to);
    case kQ4_1:
    case kQ5_1:
      return expand_low(type, block, to);
    case kQ2_K:
      return expand_2(block, to);
    case kQ3_K:
      return expand_3(block, to);
    case kQ4_K:
    case kQ5_K:
      return expand_4_or_5(type, block, to);
    case kQ6_K:
      return expand_6(block, to);
    default:
      return expand_float(type, block, to);
  }
}

}  // namespace

const GgufType* find_gguf_type(std::uint32_t number) {
  for (const GgufType& type : kGgufTypes)
    if (type.number == number) return &type;
  return nullptr;
}

std::string gguf_type_name(std::uint32_t number) {
  if (const GgufType* type = find_gguf_type(number)) return type->name;
  for (const OtherType& other : kOtherTypes)
    if (other.number == number) return other.name;
  return fmt::format("type {}", number);
}

std::string supported_gguf_types() {
  std::string names;
  for (const GgufType& type : kGgufTypes) names += fmt::format("{}{}", names.empty() ? "" : ", ", type.name);
  return names;
}

void expand_blocks(const GgufType& type, ByteView blocks, float* to) {
  for (std::size_t at = 0; at < blocks.size(); at += static_cast<std::size_t>(type.bytes), to += type.elements)
    expand_block(type, blocks.data() + at, to);
}

std::uint16_t integers_of_block(const GgufType& type, const std::uint8_t* block, std::int8_t* to) {
  constexpr int kOffset4 = 8, kOffset5 = 16;
  if (type.number == kQ8_0) std::memcpy(to, block + 2, 32);
  if (type.number == kQ4_0) spread(block + 2, 0, kOffset4, to);
  if (type.number == kQ5_0) spread(block + 6, load_little_endian<std::uint32_t>(block + 2), kOffset5, to);
  return bits_at(block);
}

bool finite_scales(const GgufType& type, ByteView blocks) {
  for (std::size_t at = 0; at < blocks.size(); at += static_cast<std::size_t>(type.bytes)) {
    const Block block = blocks.data() + at;
    if (!std::isfinite(half_at(block + type.scale))) return false;
    if (type.low != 0 && !std::isfinite(half_at(block + type.low))) return false;
  }
  return true;
}

}  // namespace mlx::nn
