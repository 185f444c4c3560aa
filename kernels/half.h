// The lower-precision types in portable code. Two are half precision: bf16, the upper half of an f32, and f16, binary16
// of IEEE 754-2019 (5 bits of exponent, 10 of fraction). Both round to nearest even. NaN stays NaN; a number too large
// for f16 becomes infinity; one below its normal range becomes subnormal. Every kernel that narrows gives these bits,
// except that products may treat denormals as zero, as AVX512_BF16 does. Used by kernels and tests. No std:: functions,
// so that code of any instruction set can use it; constexpr, so that CUDA code can.
#pragma once

#include <cstdint>

namespace mlx::kernels {

struct BF16 {
  std::uint16_t bits;
};
struct F16 {
  std::uint16_t bits;
};

static constexpr float widen(float x) {
  return x;
}
static constexpr float widen(BF16 x) {
  return __builtin_bit_cast(float, std::uint32_t{x.bits} << 16);
}
static constexpr float widen(F16 x) {
  const std::uint32_t sign = (x.bits & 0x8000u) << 16, exponent = x.bits >> 10 & 0x1fu, fraction = x.bits & 0x3ffu;
  constexpr std::uint32_t kBias = 127 - 15;  // difference of the exponents' biases
  if (exponent == 0) {                       // a multiple of 2^-24, or zero
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  const std::uint32_t widened = exponent == 0x1fu ? 0xffu : exponent + kBias;  // infinity and NaN
  return __builtin_bit_cast(float, sign | widened << 23 | fraction << 13);
}

static constexpr BF16 to_bf16(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  if (x != x) return {static_cast<std::uint16_t>(bits >> 16 | 0x40u)};  // quiet, so that no NaN becomes infinity
  return {static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}
static constexpr F16 to_f16(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  const auto signed_bits = [sign](std::uint32_t half) { return F16{static_cast<std::uint16_t>(sign | half)}; };
  constexpr std::uint32_t kInfinite = 0x477ff000, kNormal = 0x38800000;  // 65520: half a step beyond the largest; 2^-14
  if (x != x) return signed_bits(0x7e00u);
  if (magnitude >= kInfinite) return signed_bits(0x7c00u);
  if (magnitude < kNormal) {  // the last place of numbers in [0.5, 1) is 2^-24, as of subnormals
    const float rounded = __builtin_bit_cast(float, magnitude) + 0.5f;
    return signed_bits(__builtin_bit_cast(std::uint32_t, rounded) - __builtin_bit_cast(std::uint32_t, 0.5f));
  }
  constexpr std::uint32_t kBias = (127 - 15) << 23;
  return signed_bits((magnitude - kBias + 0xfffu + (magnitude >> 13 & 1u)) >> 13);
}

// tf32, an f32 with 10 bits of fraction: rounded to nearest, ties away from zero, as cvt.rna.tf32.f32 does (PTX ISA,
// section cvt). Tensor cores given an f32 use its upper bits only. Both are valid for Attrs::tf32.
static constexpr float to_tf32(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return x;  // infinity or NaN
  return __builtin_bit_cast(float, (bits + 0x1000u) & 0xffffe000u);
}

}  // namespace mlx::kernels
