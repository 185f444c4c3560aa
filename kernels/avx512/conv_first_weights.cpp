// AVX-512 gradient to the weights (and bias) of a convolution on images of up to four channels, f32. Sliced by image;
// partial sums are added in slice order.
#include "kernels/avx512/conv_first.h"

namespace mlx::kernels::avx512 {
namespace {

constexpr int kTaps = 13;  // in registers at once, with two vectors of channels, their dy and the sums of it

// Adds one image's gradient for T taps (offsets into the padded image) and N vectors of channels to `sums`, rows
// `stride` apart, and the sums of dy to `bias_sums` unless that is null.
template <int T, int N>
void gradient(const Geometry& g, const float* image, const float* dy, const std::int64_t* offsets, float* sums,
              float* bias_sums, std::int64_t stride, __mmask16 last) {
  __m512 sum[T][N], bias[N];
  MLX_UNROLL
  for (int v = 0; v < N; ++v) {
    bias[v] = _mm512_setzero_ps();
    MLX_UNROLL
    for (int t = 0; t < T; ++t) sum[t][v] = _mm512_setzero_ps();
  }
  const std::int64_t step = g.sw * g.c, width = g.o;
  for (std::int64_t oh = 0; oh < g.oh; ++oh) {
    const float* x = image + oh * g.sh * row_size(g);
    for (std::int64_t left = g.ow; left > 0; --left, x += step, dy += width) {
      __m512 d[N];
      MLX_UNROLL
      for (int v = 0; v < N; ++v) {
        d[v] = _mm512_maskz_loadu_ps(lanes_of(v, N, last), dy + 16 * v);
        bias[v] = _mm512_add_ps(bias[v], d[v]);
      }
      MLX_UNROLL
      for (int t = 0; t < T; ++t) {
        const __m512 value = _mm512_set1_ps(x[offsets[t]]);
        MLX_UNROLL
        for (int v = 0; v < N; ++v) sum[t][v] = _mm512_fmadd_ps(value, d[v], sum[t][v]);
      }
    }
  }
  MLX_UNROLL
  for (int v = 0; v < N; ++v) {
    if (bias_sums) _mm512_storeu_ps(bias_sums + 16 * v, _mm512_add_ps(_mm512_loadu_ps(bias_sums + 16 * v), bias[v]));
    MLX_UNROLL
    for (int t = 0; t < T; ++t) {
      float* at = sums + t * stride + 16 * v;
      _mm512_storeu_ps(at, _mm512_add_ps(_mm512_loadu_ps(at), sum[t][v]));
    }
  }
}

using Gradient = void (*)(const Geometry&, const float*, const float*, const std::int64_t*, float*, float*,
                          std::int64_t, __mmask16);

template <int N>
Gradient gradient_of(std::int64_t block) {
  static constexpr Gradient kByTaps[kTaps] = {
      gradient<1, N>, gradient<2, N>, gradient<3, N>,  gradient<4, N>,  gradient<5, N>,  gradient<6, N>, gradient<7, N>,
      gradient<8, N>, gradient<9, N>, gradient<10, N>, gradient<11, N>, gradient<12, N>, gradient<13, N>};
  return kByTaps[block - 1];
}

// All taps in blocks of nearly equal size: a block of one or two would wait for its own sums.
template <int N>
void gradient_image(const Geometry& g, const float* image, const float* dy, float* sums, std::int64_t stride,
                    __mmask16 last) {
  const std::int64_t count = taps(g), in_row = g.kw * g.c, blocks = (count + kTaps - 1) / kTaps;
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t first = count * b / blocks, size = count * (b + 1) / blocks - first;
    std::int64_t offsets[kTaps];
    for (std::int64_t t = 0; t < size; ++t) offsets[t] = (first + t) / in_row * row_size(g) + (first + t) % in_row;
    gradient_of<N>(size)(g, image, dy, offsets, sums + first * stride, b == 0 ? sums + count * stride : nullptr, stride,
                         last);
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
// Phase 0, by image: the sums; phase 1, by output channel: those of all slices added in order.
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
    for (std::int64_t o = 0; o < g.o; o += 32) {
      if (g.o - o > 16)
        gradient_image<2>(g, image, dy + o, sums + o, stride, lanes(g.o - o - 16));
      else
        gradient_image<1>(g, image, dy + o, sums + o, stride, lanes(g.o - o));
    }
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

}  // namespace mlx::kernels::avx512
