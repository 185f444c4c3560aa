// Shared by the loops of kernels/simd: exp, gelu, log, blocks of elements and of channels. Internal linkage throughout
// (simd.h says why).
#pragma once

#include "kernels/simd/simd.h"
#include "kernels/simd/vector.h"

// Before a loop over accumulators. It must be unrolled completely, or gcc keeps the array in memory.
#ifdef __clang__
#define MLX_UNROLL _Pragma("unroll")
#else
#define MLX_UNROLL _Pragma("GCC unroll 16")
#endif

namespace mlx::kernels::MLX_ISA {
namespace {

inline const State* state_of(const void* state) {
  return static_cast<const State*>(state);
}

// Calls `make` with a value of the type that a tensor's elements are stored as: float or BF16.
template <typename Make>
Run stored_as(DType type, Make make) {
  return type == DType::kBF16 ? make(BF16{}) : make(float{});
}

// e^x to 1.5 ulp, by reduction to |r| <= ln2/2 and the Taylor polynomial of degree 7. 0 below -104, inf above 89; NaN
// stays NaN.
inline Floats exp16(Floats x) {
  x = min(broadcast(89.0f), max(broadcast(-105.0f), x));  // second operand: NaN passes
  const Floats n = round(x * broadcast(1.44269504f));
  Floats r = fnma(n, broadcast(0.693145752f), x);
  r = fnma(n, broadcast(1.42860677e-6f), r);
  Floats p = broadcast(1.0f / 5040.0f);
  p = fma(p, r, broadcast(1.0f / 720.0f));
  p = fma(p, r, broadcast(1.0f / 120.0f));
  p = fma(p, r, broadcast(1.0f / 24.0f));
  p = fma(p, r, broadcast(1.0f / 6.0f));
  p = fma(p, r, broadcast(0.5f));
  p = fma(p, r, broadcast(1.0f));
  p = fma(p, r, broadcast(1.0f));
  return scale(p, n);
}

// The factor of x in gelu(x), tanh form: 0.5 (1 + tanh u) = 1 / (1 + e^(-2u)). Computed at x clamped to ±20, where it
// is 0 or 1.
inline Floats gelu_factor(Floats x) {
  x = min(broadcast(20.0f), max(broadcast(-20.0f), x));
  const Floats inner = fma(x * x, broadcast(0.044715f), broadcast(1.0f));
  const Floats exponent = x * broadcast(-2.0f * 0.7978845608f) * inner;
  return broadcast(1.0f) / (broadcast(1.0f) + exp16(exponent));
}
inline Floats gelu16(Floats x) {
  const Mask not_zero = ~(x < broadcast(-20.0f));
  return keep(not_zero, x * gelu_factor(x));
}
// x Φ(x). With a = |x| and t = 1 / (1 + 0.35 a), Φ(-a) is e^(-a²/2) times a polynomial in t, fitted by weighted least
// squares for a up to 20 with a relative error of 5e-8.
inline Floats gelu_erf16(Floats x) {
  const Floats one = broadcast(1.0f), a = min(broadcast(20.0f), abs(x)), t = one / fma(a, broadcast(0.35f), one);
  Floats p = broadcast(-0.0285316259f);
  for (const float c : {0.141274944f, -0.250742882f, 0.15417178f, -0.0201209933f, 0.104428649f, 0.120061487f,
                        0.139836073f, 0.139622584f})
    p = fma(p, t, broadcast(c));
  const Floats tail = p * t * exp16(a * a * broadcast(-0.5f));
  return select(x < zeros(), max(broadcast(-20.0f), x) * tail, x * (one - tail));
}
inline Floats tanh16(Floats x) {
  const Floats one = broadcast(1.0f);
  return one - broadcast(2.0f) / (one + exp16(x + x));
}
inline Floats soft_cap16(Floats x, float cap) {
  return broadcast(cap) * tanh16(x / broadcast(cap));
}
// The gradient of gelu. With f = 1 / (1 + e^(-2u)): d(x f)/dx = f + x f (1 - f) 2 du/dx.
inline Floats gelu_slope16(Floats x) {
  const Floats f = gelu_factor(x);
  x = min(broadcast(20.0f), max(broadcast(-20.0f), x));
  const Floats one = broadcast(1.0f);
  const Floats slope = fma(x * x, broadcast(3.0f * 0.044715f), one);
  const Floats bell = x * f * (one - f);
  return fma(bell * broadcast(2.0f * 0.7978845608f), slope, f);
}
inline Floats relu16(Floats x) {
  return max(zeros(), x);
}  // NaN stays NaN

// The range of an activation other than gelu: relu [0, inf), relu6 [0, 6], none unbounded. NaN stays NaN.
struct Bounds {
  Floats low, high;
};
inline Bounds bounds_of(Activation activation) {
  const float low = activation == Activation::kNone ? -__builtin_inff() : 0.0f;
  const float high = activation == Activation::kRelu6 ? 6.0f : __builtin_inff();
  return {broadcast(low), broadcast(high)};
}
inline Floats bounded16(Bounds bounds, Floats x) {
  return min(bounds.high, max(bounds.low, x));
}
// The largest y at which relu or relu6 pass the gradient on: infinity, or the last float below 6.
inline Floats last_passing(Activation activation) {
  return broadcast(activation == Activation::kRelu6 ? 0x1.7ffffep+2f : __builtin_inff());
}
inline Mask passes16(Floats y, Floats last) {
  return (y > zeros()) & (y <= last);
}

// Adds x to the sixteen doubles at `sums`.
template <typename M>
inline void add_to_doubles(double* sums, Floats x, M mask) {
  store(sums, load(sums, mask) + to_doubles(x), mask);
}

// Calls body(i, mask) for every 16 elements of [begin, end). `mask` is All while 16 are left, then a Mask of the rest.
template <typename Body>
inline void by_vectors(std::int64_t begin, std::int64_t end, Body body) {
  std::int64_t i = begin;
  for (; i + 16 <= end; i += 16) body(i, All{});
  if (i < end) body(i, lanes(end - i));
}

constexpr int kWide = kHeld >= 32 ? 4 : 1;  // vectors of channels processed at once

// The last `left` channels; `left` is more than 16 (N - 1).
template <int N, typename Body>
inline void last_channels(std::int64_t c, std::int64_t left, Body& body) {
  if (left == 16 * N)
    body.template operator()<N>(c, All{});
  else
    body.template operator()<N>(c, lanes(left - 16 * (N - 1)));
}
// Calls body<VECTORS>(first channel, All or the mask of the last vector) for blocks of up to 16 kWide channels.
template <typename Body>
inline void by_channels(std::int64_t width, Body body) {
  std::int64_t c = 0;
  for (; c + 16 * kWide <= width; c += 16 * kWide) body.template operator()<kWide>(c, All{});
  const std::int64_t left = width - c;
  if (left <= 0) return;
  if constexpr (kWide > 1) {
    if (left > 48) return last_channels<4>(c, left, body);
    if (left > 32) return last_channels<3>(c, left, body);
    if (left > 16) return last_channels<2>(c, left, body);
  }
  last_channels<1>(c, left, body);
}
// The mask of vector `v` of `count`; all but the last are full.
inline Mask lanes_of(int v, int count, Mask last) {
  return v + 1 < count ? every() : last;
}
inline All lanes_of(int, int, All) {
  return {};
}

// Natural logarithm of a number of at least 1, to 1 ulp; infinity and NaN are returned unchanged. With m = x / 2^e
// within a factor sqrt(2) of 1 and s = (m - 1) / (m + 1), it is e ln 2 + 2 (s + s^3 / 3 + s^5 / 5 ...); s^2 < 0.03.
inline double logarithm(double x) {
  if (!(x < __builtin_inf())) return x;
  std::uint64_t bits = 0;
  __builtin_memcpy(&bits, &x, sizeof bits);
  constexpr std::uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd;  // bits of sqrt(1/2)
  const auto exponent = static_cast<std::int64_t>(bits - kSqrtHalf) >> 52;
  bits -= static_cast<std::uint64_t>(exponent) << 52;
  double m = 0.0;
  __builtin_memcpy(&m, &bits, sizeof m);
  const double s = (m - 1.0) / (m + 1.0), square = s * s;
  double series = 0.0;
  for (int i = 21; i >= 3; i -= 2) series = (series + 1.0 / i) * square;
  const auto e = static_cast<double>(exponent);
  return e * 0x1.62e42fefa38p-1 + (2.0 * s + (2.0 * s * series + e * 0x1.ef35793c7673p-45));
}

inline double power(double base, std::uint64_t exponent) {
  double product = 1.0;
  for (; exponent > 0; exponent >>= 1, base *= base)
    if (exponent & 1) product *= base;
  return product;
}

inline std::size_t bytes_of(std::int64_t count, std::size_t size) {
  return static_cast<std::size_t>(count) * size;
}

}  // namespace
}  // namespace mlx::kernels::MLX_ISA
