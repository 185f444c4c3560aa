// Dropout: sixteen Philox blocks at a time, the same numbers that philox.h gives one by one. Drops single elements or
// whole examples (stochastic depth).
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

struct Stream {
  std::uint64_t seed, mixed;  // as in random_block of philox.h
};

// The numbers of elements 4·block … 4·block+63 in order; block is a multiple of 16.
inline void draw(const Stream& stream, std::uint64_t block, Ints out[4]) {
  // Lane 4a+b counts block 4b+a, so that transposing 4x4 lanes leaves the elements in order.
  static constexpr std::int32_t kOrder[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  Ints c0 = integers(static_cast<int>(block)) + load(kOrder);
  Ints c1 = integers(static_cast<int>(block >> 32));
  Ints c2 = integers(static_cast<int>(stream.mixed));
  Ints c3 = integers(static_cast<int>(stream.mixed >> 32));
  auto key0 = static_cast<std::uint32_t>(stream.seed), key1 = static_cast<std::uint32_t>(stream.seed >> 32);
  const Ints first = integers(static_cast<int>(0xD2511F53u));
  const Ints second = integers(static_cast<int>(0xCD9E8D57u));
  for (int round = 0; round < 10; ++round) {
    Ints high0, low0, high1, low1;
    multiply(c0, first, &high0, &low0);
    multiply(c2, second, &high1, &low1);
    c0 = high1 ^ c1 ^ integers(static_cast<int>(key0));
    c2 = high0 ^ c3 ^ integers(static_cast<int>(key1));
    c1 = low1, c3 = low0;
    key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
  }
  const Ints counters[4] = {c0, c1, c2, c3};
  transpose_fours(counters, out);
}

Stream stream_of(const State* s, const Args& args) {
  return {args.seed, s->attrs.stream * 0x9E3779B97F4A7C15u + args.step};
}

void dropout(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const float* x = f32_in(s, args, 0);
  float* y = f32_out(s, args, 0);
  const Floats scale = broadcast(1.0f / (1.0f - s->attrs.rate)), rate = broadcast(s->attrs.rate);
  const Stream stream = stream_of(s, args);
  const Range range = elements_of(s, phase, slice, s->g.count);
  for (std::int64_t i = range.begin; i < range.end; i += 64) {
    Ints bits[4];
    draw(stream, static_cast<std::uint64_t>(i) / 4, bits);
    const std::int64_t end = i + 64 < range.end ? i + 64 : range.end;
    by_vectors(i, end, [&](std::int64_t at, auto mask) {
      const Floats unit = to_floats(shifted_right<8>(bits[(at - i) / 16])) * broadcast(0x1p-24f);
      store(y + at, keep(unit >= rate, load(x + at, mask) * scale), mask);
    });
  }
}

// Sliced by example, each kept or dropped whole.
void drop_examples(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t each = s->g.n > 0 ? s->g.count / s->g.n : 0;
  const Floats scale = broadcast(1.0f / (1.0f - s->attrs.rate));
  const Stream stream = stream_of(s, args);
  const Range examples = range_of(s, phase, slice);
  for (std::int64_t n = examples.begin; n < examples.end; ++n) {
    std::int32_t bits[64];
    Ints drawn[4];
    draw(stream, static_cast<std::uint64_t>(n) / 64 * 16, drawn);
    for (int v = 0; v < 4; ++v) store(bits + 16 * v, drawn[v]);
    const bool kept = static_cast<float>(static_cast<std::uint32_t>(bits[n % 64]) >> 8) * 0x1p-24f >= s->attrs.rate;
    const float* x = f32_in(s, args, 0) + n * each;
    float* y = f32_out(s, args, 0) + n * each;
    by_vectors(0, each,
               [&](std::int64_t i, auto mask) { store(y + i, kept ? load(x + i, mask) * scale : zeros(), mask); });
  }
}

}  // namespace

bool prepare_dropout(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, dropout);
  if (!s) return false;
  if (s->attrs.whole_example) {
    plan.run = drop_examples;
    cut(s, plan, 0, s->g.n, s->g.count * 8);
    return true;
  }
  cut(s, plan, 0, (s->g.count + kBlock - 1) / kBlock, s->g.count * 8);
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
