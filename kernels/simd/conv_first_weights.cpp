// Gradient to the weights (and bias) of a convolution on images of up to four channels, f32. Sliced by image; partial
// sums are added in slice order.
#include "kernels/simd/conv_first.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// The number of taps held in registers, with their vectors of channels, dy and the sums of dy.
constexpr int kMostTaps = 13, kTaps = kHeld >= 32 ? kMostTaps : 5;

// Adds one image's gradient for T taps (offsets into the padded image) and N vectors of channels to `sums`, whose rows
// are `stride` apart, and the sums of dy to `bias_sums` unless it is null.
template <int T, int N, typename M>
void gradient(const Geometry& g, const float* image, const float* dy, const std::int64_t* offsets, float* sums,
              float* bias_sums, std::int64_t stride, M last) {
  Floats sum[T][N], bias[N];
  MLX_UNROLL
  for (int v = 0; v < N; ++v) {
    bias[v] = zeros();
    MLX_UNROLL
    for (int t = 0; t < T; ++t) sum[t][v] = zeros();
  }
  const std::int64_t step = g.sw * g.c, width = g.o;
  for (std::int64_t oh = 0; oh < g.oh; ++oh) {
    const float* x = image + oh * g.sh * row_size(g);
    for (std::int64_t left = g.ow; left > 0; --left, x += step, dy += width) {
      Floats d[N];
      MLX_UNROLL
      for (int v = 0; v < N; ++v) {
        d[v] = load(dy + 16 * v, lanes_of(v, N, last));
        bias[v] = bias[v] + d[v];
      }
      MLX_UNROLL
      for (int t = 0; t < T; ++t) {
        const Floats value = broadcast(x[offsets[t]]);
        MLX_UNROLL
        for (int v = 0; v < N; ++v) sum[t][v] = fma(value, d[v], sum[t][v]);
      }
    }
  }
  MLX_UNROLL
  for (int v = 0; v < N; ++v) {
    if (bias_sums) store(bias_sums + 16 * v, load(bias_sums + 16 * v) + bias[v]);
    MLX_UNROLL
    for (int t = 0; t < T; ++t) {
      float* at = sums + t * stride + 16 * v;
      store(at, load(at) + sum[t][v]);
    }
  }
}

template <typename M>
using Gradient = void (*)(const Geometry&, const float*, const float*, const std::int64_t*, float*, float*,
                          std::int64_t, M);

template <int N, typename M>
Gradient<M> gradient_of(std::int64_t block) {
  static constexpr Gradient<M> kByTaps[kMostTaps] = {
      gradient<1, N, M>,  gradient<2, N, M>,  gradient<3, N, M>, gradient<4, N, M>, gradient<5, N, M>,
      gradient<6, N, M>,  gradient<7, N, M>,  gradient<8, N, M>, gradient<9, N, M>, gradient<10, N, M>,
      gradient<11, N, M>, gradient<12, N, M>, gradient<13, N, M>};
  return kByTaps[block - 1];
}

// Takes all taps in blocks of nearly equal size, because a block of one or two has too few sums to hide latency.
template <int N, typename M>
void gradient_image(const Geometry& g, const float* image, const float* dy, float* sums, std::int64_t stride, M last) {
  const std::int64_t count = taps(g), in_row = g.kw * g.c, blocks = (count + kTaps - 1) / kTaps;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t first = count * b / blocks, size = count * (b + 1) / blocks - first;
    std::int64_t offsets[kTaps];
    for (std::int64_t t = 0; t < size; ++t) offsets[t] = (first + t) / in_row * row_size(g) + (first + t) % in_row;
    gradient_of<N, M>(size)(g, image, dy, offsets, sums + first * stride, b == 0 ? sums + count * stride : nullptr,
                            stride, last);
  }
}

void add_slices(const State* s, const Args& args, const float* all, Range channels) {
  const std::int64_t stride = padded_channels(s->g), count = taps(s->g), floats = (count + 1) * stride;
  float *dw = f32_out(s, args, 0), *db = f32_out(s, args, 1);
  for (std::int64_t o = channels.begin; o < channels.end; ++o)
    for (std::int64_t tap = 0; tap <= count; ++tap) {
      double sum = 0.0;
      for (int from = 0; from < s->slices[0]; ++from) sum += all[floats * from + tap * stride + o];
      if (tap < count)
        dw[o * count + tap] = static_cast<float>(sum);
      else if (db)
        db[o] = static_cast<float>(sum);
    }
}

// Workspace: per slice the padded image, then per slice the sums [taps + 1][channels padded], the last row for db.
// Phase 0, by image, computes the sums; phase 1, by output channel, adds those of all slices in order.
void backward_weights(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  const std::int64_t stride = padded_channels(g), floats = (taps(g) + 1) * stride;
  auto* images = static_cast<float*>(args.workspace);
  float* all = images + image_floats(g) * s->slices[0];
  const Range range = range_of(s, phase, slice);
  if (phase == 1) return add_slices(s, args, all, range);

  float *image = images + image_floats(g) * slice, *sums = all + floats * slice;
  for (std::int64_t i = 0; i < floats; ++i) sums[i] = 0.0f;
  clear_image(g, image);
  for (std::int64_t n = range.begin; n < range.end; ++n) {
    copy_image(g, f32_in(s, args, 0) + n * g.h * g.w * g.c, image);
    const float* dy = f32_in(s, args, 1) + n * g.oh * g.ow * g.o;
    std::int64_t o = 0;
    if constexpr (kWide > 1)
      for (; o + 32 <= g.o; o += 32) gradient_image<2>(g, image, dy + o, sums + o, stride, All{});
    for (; o + 16 <= g.o; o += 16) gradient_image<1>(g, image, dy + o, sums + o, stride, All{});
    if (o < g.o) gradient_image<1>(g, image, dy + o, sums + o, stride, lanes(g.o - o));
  }
}

}  // namespace

bool prepare_conv_first_weights(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, backward_weights);
  if (!s || !is_first_conv(s->g)) return false;
  const Geometry& g = s->g;
  cut(s, plan, 0, g.n, g.n * g.oh * g.ow * g.o * 4);
  const std::int64_t sums = (taps(g) + 1) * padded_channels(g) * s->slices[0];
  cut(s, plan, 1, g.o, sums * 4);
  plan.workspace_bytes = bytes_of(image_floats(g) * s->slices[0] + sums, sizeof(float));
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
