// Gradient to the weights (and bias) of a depthwise 3x3 convolution, f32, stride 1 and 2. Sliced by image; partial sums
// are added in slice order.
#include "kernels/simd/depthwise.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// Adds one row's part of the gradient to the three taps of a kernel row at `sums`, `step` apart, for up to 16 channels:
// the sum over i of dy[i] times pixel i * S - g.pl + tap of `x`.
template <int S, bool Tail>
void add_row(const Geometry& g, const float* x, const float* dy, float* sums, std::int64_t step, Mask mask) {
  constexpr int kMany = 4, kValues = (kMany - 1) * S + 3;
  Floats sum[2][kSide];  // of even and odd pixels: six sums hide the latency of a multiply-add
  MLX_UNROLL
  for (int t = 0; t < kSide; ++t) sum[0][t] = sum[1][t] = zeros();
  const auto one = [&](std::int64_t i) {
    const Range taps = taps_within(i * S - g.pl, g.w);
    const Floats d = load<Tail>(dy + i * g.c, mask);
    MLX_UNROLL
    for (int t = 0; t < kSide; ++t)
      if (t >= taps.begin && t < taps.end)
        sum[0][t] = fma(load<Tail>(x + (i * S - g.pl + t) * g.c, mask), d, sum[0][t]);
  };
  const Range whole = inner(g.ow, g.w, S, g.pl);
  std::int64_t i = 0;
  for (; i < whole.begin; ++i) one(i);
  for (; i + kMany <= whole.end; i += kMany) {
    const float* from = x + (i * S - g.pl) * g.c;
    Floats value[kValues];
    MLX_UNROLL
    for (int k = 0; k < kValues; ++k) value[k] = load<Tail>(from + k * g.c, mask);
    MLX_UNROLL
    for (int p = 0; p < kMany; ++p) {
      const Floats d = load<Tail>(dy + (i + p) * g.c, mask);
      MLX_UNROLL
      for (int t = 0; t < kSide; ++t) sum[p % 2][t] = fma(value[p * S + t], d, sum[p % 2][t]);
    }
  }
  for (; i < g.ow; ++i) one(i);
  MLX_UNROLL
  for (int t = 0; t < kSide; ++t) {
    float* at = sums + t * step;
    store(at, load(at) + (sum[0][t] + sum[1][t]));
  }
}

template <int S, bool Tail>
void add_image(const Geometry& g, const float* x, const float* dy, float* sums, bool bias, Mask mask) {
  const std::int64_t step = padded_channels(g);
  for (std::int64_t oh = 0; oh < g.oh; ++oh, dy += g.ow * g.c) {
    const std::int64_t first = oh * S - g.pt;
    const Range rows = taps_within(first, g.h);
    for (std::int64_t kh = rows.begin; kh < rows.end; ++kh)
      add_row<S, Tail>(g, x + (first + kh) * g.w * g.c, dy, sums + kh * kSide * step, step, mask);
    if (!bias) continue;
    Floats sum = load(sums + kTaps * step);
    for (std::int64_t i = 0; i < g.ow; ++i) sum = sum + load<Tail>(dy + i * g.c, mask);
    store(sums + kTaps * step, sum);
  }
}

using AddImage = void (*)(const Geometry&, const float*, const float*, float*, bool, Mask);

void add_slices(const State* s, const Args& args, const float* all, Range channels) {
  const std::int64_t stride = padded_channels(s->g), floats = (kTaps + 1) * stride;
  float *dw = f32_out(s, args, 0), *db = f32_out(s, args, 1);
  for (std::int64_t c = channels.begin; c < channels.end; ++c)
    for (std::int64_t tap = 0; tap <= kTaps; ++tap) {
      double sum = 0.0;
      for (int from = 0; from < s->slices[0]; ++from) sum += all[floats * from + tap * stride + c];
      if (tap < kTaps)
        dw[c * kTaps + tap] = static_cast<float>(sum);
      else if (db)
        db[c] = static_cast<float>(sum);
    }
}

// Workspace: per slice the sums [taps + 1][channels padded], the last row for db. Phase 0, by image, computes the sums;
// phase 1, by channel, adds those of all slices in order.
void backward_weights(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  auto* all = static_cast<float*>(args.workspace);
  const Range range = range_of(s, phase, slice);
  if (phase == 1) return add_slices(s, args, all, range);

  const std::int64_t floats = (kTaps + 1) * padded_channels(g);
  float* sums = all + floats * slice;
  for (std::int64_t i = 0; i < floats; ++i) sums[i] = 0.0f;
  const AddImage whole = g.sh == 1 ? add_image<1, false> : add_image<2, false>;
  const AddImage tail = g.sh == 1 ? add_image<1, true> : add_image<2, true>;
  for (std::int64_t n = range.begin; n < range.end; ++n)
    for (std::int64_t c = 0; c < g.c; c += 16) {
      const Mask mask = lanes(g.c - c);
      (is_full(mask) ? whole : tail)(g, f32_in(s, args, 0) + n * g.h * g.w * g.c + c,
                                     f32_in(s, args, 1) + n * g.oh * g.ow * g.c + c, sums + c, g.has_output[1], mask);
    }
}

}  // namespace

bool prepare_depthwise_weights(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, backward_weights);
  if (!s || !is_depthwise(s->g)) return false;
  const Geometry& g = s->g;
  cut(s, plan, 0, g.n, g.n * (g.h * g.w + g.oh * g.ow) * g.c * 4);
  const std::int64_t sums = (kTaps + 1) * padded_channels(g) * s->slices[0];
  cut(s, plan, 1, g.c, sums * 4);
  plan.workspace_bytes = bytes_of(sums, sizeof(float));
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
