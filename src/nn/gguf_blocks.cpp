#include "nn/gguf_blocks.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "kernels/block_type.h"
#include "kernels/half.h"

namespace mlx::nn {
namespace {

using kernels::DType;
using Block = const std::uint8_t*;

enum : std::uint32_t { kF32 = 0, kF16 = 1, kBF16 = 30 };
constexpr GgufType kGgufTypes[] = {
    {kF32, "F32", GgufForm::kFloat, DType::kF32, 1, 4},
    {kF16, "F16", GgufForm::kFloat, DType::kF16, 1, 2},
    {kBF16, "BF16", GgufForm::kFloat, DType::kBF16, 1, 2},
    {kernels::kQ8_0, "Q8_0", GgufForm::kEight, DType::kF32, 32, 34},
    {kernels::kQ5_0, "Q5_0", GgufForm::kBlocks, DType::kF32, 32, 22},
    {kernels::kQ4_0, "Q4_0", GgufForm::kFour, DType::kF32, 32, 18},
    {kernels::kQ4_1, "Q4_1", GgufForm::kBlocks, DType::kF32, 32, 20, 0, 2},
    {kernels::kQ5_1, "Q5_1", GgufForm::kBlocks, DType::kF32, 32, 24, 0, 2},
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

void expand_float(const GgufType& type, Block from, float* to) {
  if (type.number == kF32) std::memcpy(to, from, sizeof *to);
  if (type.number == kF16) *to = half_at(from);
  if (type.number == kBF16) *to = kernels::widen(kernels::BF16{bits_at(from)});
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
  if (const kernels::BlockType* const shared = kernels::find_block_type(type.number))
    return kernels::expand_blocks(*shared, blocks.data(), static_cast<std::int64_t>(blocks.size()) / shared->bytes, to);
  for (std::size_t at = 0; at < blocks.size(); at += static_cast<std::size_t>(type.bytes), ++to)
    expand_float(type, blocks.data() + at, to);
}

std::uint16_t integers_of_block(const GgufType& type, const std::uint8_t* block, std::int8_t* to) {
  const kernels::BlockType& shared = *kernels::find_block_type(type.number);
  kernels::UnpackedBlock unpacked;
  unpack_block(shared, block, unpacked);
  for (std::int64_t i = 0; i < shared.weights; ++i)
    to[i] = static_cast<std::int8_t>(unpacked.integers[i] - shared.offset);
  return unpacked.scale.bits;
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
