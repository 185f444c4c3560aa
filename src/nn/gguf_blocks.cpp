// One function for each type. Products and sums are rounded in the order of the format's own definition, so that the
// numbers are those of other programs, bit for bit.

#include "nn/gguf_blocks.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "kernels/block_type.h"
#include "kernels/half.h"

namespace mlx::nn {
namespace {

using kernels::DType;
using Block = const std::uint8_t*;

enum : std::uint32_t { kF32 = 0, kF16 = 1, kQ4_0 = 2, kQ4_1 = 3, kQ5_0 = 6, kQ5_1 = 7, kQ8_0 = 8, kBF16 = 30 };
constexpr GgufType kGgufTypes[] = {
    {kF32, "F32", GgufForm::kFloat, DType::kF32, 1, 4},
    {kF16, "F16", GgufForm::kFloat, DType::kF16, 1, 2},
    {kBF16, "BF16", GgufForm::kFloat, DType::kBF16, 1, 2},
    {kQ8_0, "Q8_0", GgufForm::kEight, DType::kF32, 32, 34},
    {kQ5_0, "Q5_0", GgufForm::kEight, DType::kF32, 32, 22},
    {kQ4_0, "Q4_0", GgufForm::kFour, DType::kF32, 32, 18},
    {kQ4_1, "Q4_1", GgufForm::kExpanded, DType::kF32, 32, 20, 0, 2},
    {kQ5_1, "Q5_1", GgufForm::kExpanded, DType::kF32, 32, 24, 0, 2},
    {kernels::kQ2K, "Q2_K", GgufForm::kBlocks, DType::kF32, 256, 84, 80, 82},
    {kernels::kQ3K, "Q3_K", GgufForm::kBlocks, DType::kF32, 256, 110, 108},
    {kernels::kQ4K, "Q4_K", GgufForm::kBlocks, DType::kF32, 256, 144, 0, 2},
    {kernels::kQ5K, "Q5_K", GgufForm::kBlocks, DType::kF32, 256, 176, 0, 2},
    {kernels::kQ6K, "Q6_K", GgufForm::kBlocks, DType::kF32, 256, 210, 208},
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
  if (const kernels::BlockType* const large = kernels::find_block_type(type.number))
    return kernels::expand_blocks(*large, blocks.data(), static_cast<std::int64_t>(blocks.size()) / large->bytes, to);
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
