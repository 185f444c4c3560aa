// The types of half precision against their definitions: every number of each, and what lies between two neighbours.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "kernels/half.h"

namespace mlx::kernels::test {
namespace {

constexpr float kHalfInf = std::numeric_limits<float>::infinity();

// What the bits of a number without sign say: `fraction_bits` behind an exponent biased by `bias`, all ones for what is
// not finite.
double value_of(std::uint32_t bits, int fraction_bits, int bias) {
  const std::uint32_t fraction = bits & ((1u << fraction_bits) - 1);
  const int exponent = static_cast<int>(bits >> fraction_bits);
  if (exponent == 2 * bias + 1) return fraction ? std::nan("") : std::numeric_limits<double>::infinity();
  if (exponent == 0) return std::ldexp(fraction, 1 - bias - fraction_bits);
  return std::ldexp((1u << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

template <typename T>
void check_type(T (*rounded)(float), int fraction_bits, int bias) {
  const auto half_of = [](std::uint32_t bits) { return T{static_cast<std::uint16_t>(bits)}; };
  const auto bits_of = [&](double x) -> std::uint32_t { return rounded(static_cast<float>(x)).bits; };
  constexpr std::uint32_t kSign = 0x8000;
  std::uint32_t bits = 0;
  for (; bits < kSign && std::isfinite(value_of(bits, fraction_bits, bias)); ++bits) {
    INFO("bits ", bits);
    const double value = value_of(bits, fraction_bits, bias);
    REQUIRE(double{widen(half_of(bits))} == value);
    REQUIRE(double{widen(half_of(bits | kSign))} == -value);
    REQUIRE(bits_of(value) == bits);
    REQUIRE(bits_of(-value) == (bits | kSign));
    // The middle to the next goes to the even one, what is beside it to the nearer; infinity stands where the next
    // power of two would.
    const double last = std::ldexp(1.0, bias + 1);
    const double next = value_of(bits + 1, fraction_bits, bias), above = std::isfinite(next) ? next : last;
    const auto middle = static_cast<float>((value + above) / 2);
    REQUIRE(bits_of(middle) == bits + bits % 2);
    REQUIRE(bits_of(-middle) == ((bits + bits % 2) | kSign));
    if (double{std::nextafter(middle, 0.0f)} > value) REQUIRE(bits_of(std::nextafter(middle, 0.0f)) == bits);
    REQUIRE(bits_of(std::nextafter(middle, kHalfInf)) == bits + 1);
  }
  CHECK(std::isinf(widen(half_of(bits))));
  CHECK(bits_of(kHalfInf) == bits);
  CHECK(bits_of(-3.4e38) == (bits | kSign));
  for (++bits; bits < kSign; ++bits) {
    REQUIRE(std::isnan(widen(half_of(bits))));
    REQUIRE(std::isnan(widen(rounded(widen(half_of(bits))))));
  }
  CHECK(std::isnan(widen(rounded(std::nanf("")))));
}

}  // namespace

TEST_CASE("half: every bf16 is the number that its bits say, and rounding goes to the nearest, to even in the middle") {
  check_type<BF16>([](float x) { return to_bf16(x); }, 7, 127);
}

TEST_CASE("half: every f16 is the number that its bits say, and rounding goes to the nearest, to even in the middle") {
  check_type<F16>([](float x) { return to_f16(x); }, 10, 15);
}

TEST_CASE("half: tf32 keeps ten bits of fraction, rounded to the nearest, away from zero in the middle") {
  CHECK(to_tf32(1.0f + 0x1p-10f) == 1.0f + 0x1p-10f);
  CHECK(to_tf32(1.0f + 0x1p-11f) == 1.0f + 0x1p-10f);
  CHECK(to_tf32(-1.0f - 0x1p-11f) == -1.0f - 0x1p-10f);
  CHECK(to_tf32(1.0f + 0x1p-11f - 0x1p-23f) == 1.0f);
  CHECK(to_tf32(2.0f - 0x1p-12f) == 2.0f);
  CHECK(to_tf32(0x1p-126f) == 0x1p-126f);
  CHECK(to_tf32(kHalfInf) == kHalfInf);
  CHECK(std::isnan(to_tf32(std::nanf(""))));
}

}  // namespace mlx::kernels::test
