// AVX-512 direct convolution for images of up to four channels (a network's first layer): output channels in the lanes,
// f32, forward and backward to the weights. Sliced by image; each image is copied once with its padding, then no tap
// needs a test.
#include "kernels/avx512/lanes.h"

namespace mlx::kernels::avx512 {
namespace {

std::int64_t padded_channels(const Geometry& g) {
  return (g.o + 15) / 16 * 16;
}
std::int64_t taps(const Geometry& g) {
  return g.kh * g.kw * g.c;
}
// The part of the padded image that windows reach.
std::int64_t reach_h(const Geometry& g) {
  return (g.oh - 1) * g.sh + g.kh;
}
std::int64_t reach_w(const Geometry& g) {
  return (g.ow - 1) * g.sw + g.kw;
}
std::int64_t image_floats(const Geometry& g) {
  return (reach_h(g) * reach_w(g) * g.c + 15) / 16 * 16;
}

void copy_padded(const Geometry& g, const float* x, float* image) {
  const std::int64_t high = reach_h(g), wide = reach_w(g);
  for (std::int64_t ih = 0; ih < high; ++ih)
    for (std::int64_t iw = 0; iw < wide; ++iw) {
      const std::int64_t h = ih - g.pt, w = iw - g.pl;
      const bool inside = h >= 0 && h < g.h && w >= 0 && w < g.w;
      for (std::int64_t c = 0; c < g.c; ++c)
        image[(ih * wide + iw) * g.c + c] = inside ? x[(h * g.w + w) * g.c + c] : 0.0f;
    }
}

struct Forward {
  const float* image;    // padded
  const float* weights;  // packed: [taps][channels padded to 16]
  const float* bias;
  bool relu;
};

// P pixels of one output row from `ow`, N vectors of channels from `o`.
template <int P, int N>
void pixels(const Geometry& g, const Forward& f, float* y, std::int64_t oh, std::int64_t ow, std::int64_t o,
            __mmask16 last) {
  const std::int64_t stride = padded_channels(g), wide = reach_w(g), step = g.sw * g.c;
  __m512 sum[P][N];
  MLX_UNROLL
  for (int v = 0; v < N; ++v) {
    const __m512 start =
        f.bias ? _mm512_maskz_loadu_ps(lanes_of(v, N, last), f.bias + o + 16 * v) : _mm512_setzero_ps();
    MLX_UNROLL
    for (int p = 0; p < P; ++p) sum[p][v] = start;
  }
  const float* w = f.weights + o;
  for (std::int64_t kh = 0; kh < g.kh; ++kh) {
    const float* row = f.image + ((oh * g.sh + kh) * wide + ow * g.sw) * g.c;
    for (std::int64_t i = 0; i < g.kw * g.c; ++i, w += stride) {
      __m512 weight[N];
      MLX_UNROLL
      for (int v = 0; v < N; ++v) weight[v] = _mm512_loadu_ps(w + 16 * v);
      MLX_UNROLL
      for (int p = 0; p < P; ++p) {
        const __m512 value = _mm512_set1_ps(row[i + p * step]);
        MLX_UNROLL
        for (int v = 0; v < N; ++v) sum[p][v] = _mm512_fmadd_ps(value, weight[v], sum[p][v]);
      }
    }
  }
  float* out = y + (oh * g.ow + ow) * g.o + o;
  MLX_UNROLL
  for (int p = 0; p < P; ++p) {
    MLX_UNROLL
    for (int v = 0; v < N; ++v) {
      const __m512 value = f.relu ? relu16(sum[p][v]) : sum[p][v];
      _mm512_mask_storeu_ps(out + p * g.o + 16 * v, lanes_of(v, N, last), value);
    }
  }
}

template <int N>
void forward_image(const Geometry& g, const Forward& f, float* y, std::int64_t o, __mmask16 last) {
  for (std::int64_t oh = 0; oh < g.oh; ++oh) {
    std::int64_t ow = 0;
    for (; ow + 12 <= g.ow; ow += 12) pixels<12, N>(g, f, y, oh, ow, o, last);
    for (; ow + 4 <= g.ow; ow += 4) pixels<4, N>(g, f, y, oh, ow, o, last);
    for (; ow < g.ow; ++ow) pixels<1, N>(g, f, y, oh, ow, o, last);
  }
}

void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  float* image = static_cast<float*>(args.workspace) + image_floats(g) * slice;
  const Forward f{image, static_cast<const float*>(args.packed), f32_in(s, args, 2),
                  s->attrs.activation == Activation::kRelu};
  const Range images = range_of(s, phase, slice);
  for (std::int64_t n = images.begin; n < images.end; ++n) {
    copy_padded(g, f32_in(s, args, 0) + n * g.h * g.w * g.c, image);
    float* y = f32_out(s, args, 0) + n * g.oh * g.ow * g.o;
    for (std::int64_t o = 0; o < g.o; o += 32) {
      if (g.o - o > 16)
        forward_image<2>(g, f, y, o, lanes(g.o - o - 16));
      else
        forward_image<1>(g, f, y, o, lanes(g.o - o));
    }
  }
}

// w[O, taps] to [taps, O padded to 16].
void pack(const void* opaque, const void* weights, void* packed) {
  const State* s = state_of(opaque);
  const std::int64_t count = taps(s->g), stride = padded_channels(s->g);
  const auto* w = static_cast<const float*>(weights);
  auto* out = static_cast<float*>(packed);
  for (std::int64_t tap = 0; tap < count; ++tap)
    for (std::int64_t o = 0; o < stride; ++o) out[tap * stride + o] = o < s->g.o ? w[o * count + tap] : 0.0f;
}

constexpr int kTaps = 12;  // in registers at once, with two vectors of channels

// Adds one image's gradient for T taps (offsets into the padded image) and N vectors of channels to `sums`, rows
// `stride` apart.
template <int T, int N>
void gradient(const Geometry& g, const float* image, const float* dy, const std::int64_t* offsets, float* sums,
              std::int64_t stride, __mmask16 last) {
  __m512 sum[T][N];
  MLX_UNROLL
  for (int t = 0; t < T; ++t) {
    MLX_UNROLL
    for (int v = 0; v < N; ++v) sum[t][v] = _mm512_setzero_ps();
  }
  for (std::int64_t oh = 0; oh < g.oh; ++oh) {
    const float* x = image + oh * g.sh * reach_w(g) * g.c;
    for (std::int64_t ow = 0; ow < g.ow; ++ow, x += g.sw * g.c, dy += g.o) {
      __m512 d[N];
      MLX_UNROLL
      for (int v = 0; v < N; ++v) d[v] = _mm512_maskz_loadu_ps(lanes_of(v, N, last), dy + 16 * v);
      MLX_UNROLL
      for (int t = 0; t < T; ++t) {
        const __m512 value = _mm512_set1_ps(x[offsets[t]]);
        MLX_UNROLL
        for (int v = 0; v < N; ++v) sum[t][v] = _mm512_fmadd_ps(value, d[v], sum[t][v]);
      }
    }
  }
  MLX_UNROLL
  for (int t = 0; t < T; ++t) {
    MLX_UNROLL
    for (int v = 0; v < N; ++v) {
      float* at = sums + t * stride + 16 * v;
      _mm512_storeu_ps(at, _mm512_add_ps(_mm512_loadu_ps(at), sum[t][v]));
    }
  }
}

template <int N>
void gradient_image(const Geometry& g, const float* image, const float* dy, float* sums, std::int64_t stride,
                    __mmask16 last) {
  const std::int64_t count = taps(g), row = g.kw * g.c, wide = reach_w(g) * g.c;
  for (std::int64_t tap = 0; tap < count;) {
    std::int64_t offsets[kTaps];
    const std::int64_t left = count - tap, block = left >= 12 ? 12 : left >= 9 ? 9 : left >= 3 ? 3 : 1;
    for (std::int64_t t = 0; t < block; ++t) offsets[t] = (tap + t) / row * wide + (tap + t) % row;
    float* at = sums + tap * stride;
    if (block == 12) gradient<12, N>(g, image, dy, offsets, at, stride, last);
    if (block == 9) gradient<9, N>(g, image, dy, offsets, at, stride, last);
    if (block == 3) gradient<3, N>(g, image, dy, offsets, at, stride, last);
    if (block == 1) gradient<1, N>(g, image, dy, offsets, at, stride, last);
    tap += block;
  }
}

void add_bias_gradient(const Geometry& g, const float* dy, float* sums) {
  for (std::int64_t o = 0; o < g.o; o += 16) {
    const __mmask16 mask = lanes(g.o - o);
    __m512 sum = _mm512_setzero_ps();
    for (std::int64_t i = 0; i < g.oh * g.ow; ++i)
      sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, dy + i * g.o + o));
    _mm512_storeu_ps(sums + o, _mm512_add_ps(_mm512_loadu_ps(sums + o), sum));
  }
}

// Workspace: per slice the padded image, then per slice the sums [taps + 1][channels padded], the last row for db.
// Phase 0, by image: the sums; phase 1, by output channel: those of all slices added in order.
void backward_weights(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  const std::int64_t stride = padded_channels(g), count = taps(g), floats = (count + 1) * stride;
  auto* images = static_cast<float*>(args.workspace);
  float* all = images + image_floats(g) * s->slices[0];
  const Range range = range_of(s, phase, slice);
  if (phase == 1) {
    for (std::int64_t o = range.begin; o < range.end; ++o)
      for (std::int64_t tap = 0; tap <= count; ++tap) {
        double sum = 0.0;
        for (int from = 0; from < s->slices[0]; ++from) sum += all[floats * from + tap * stride + o];
        if (tap < count)
          f32_out(s, args, 0)[o * count + tap] = static_cast<float>(sum);
        else if (s->g.has_output[1])
          f32_out(s, args, 1)[o] = static_cast<float>(sum);
      }
    return;
  }
  float *image = images + image_floats(g) * slice, *sums = all + floats * slice;
  for (std::int64_t i = 0; i < floats; ++i) sums[i] = 0.0f;
  for (std::int64_t n = range.begin; n < range.end; ++n) {
    copy_padded(g, f32_in(s, args, 0) + n * g.h * g.w * g.c, image);
    const float* dy = f32_in(s, args, 1) + n * g.oh * g.ow * g.o;
    for (std::int64_t o = 0; o < g.o; o += 32) {
      if (g.o - o > 16)
        gradient_image<2>(g, image, dy + o, sums + o, stride, lanes(g.o - o - 16));
      else
        gradient_image<1>(g, image, dy + o, sums + o, stride, lanes(g.o - o));
    }
    if (s->g.has_output[1]) add_bias_gradient(g, dy, sums + count * stride);
  }
}

}  // namespace

bool prepare_conv_first(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, forward);
  if (!s) return false;
  const Geometry& g = s->g;
  if (g.quantized || g.c > 4 || g.groups != 1 || problem.attrs.activation == Activation::kGelu) return false;
  if (g.kh > 11 || g.kw > 11) return false;
  cut(s, plan, 0, g.n, g.n * g.oh * g.ow * g.o * 4);
  const std::int64_t images = image_floats(g) * s->slices[0];
  if (problem.op == Op::kConv2d) {
    plan.packed_input = 1;
    plan.packed_bytes = bytes_of(taps(g) * padded_channels(g), sizeof(float));
    plan.pack = pack;
    plan.workspace_bytes = bytes_of(images, sizeof(float));
  } else {
    plan.run = backward_weights;
    const std::int64_t sums = (taps(g) + 1) * padded_channels(g) * s->slices[0];
    cut(s, plan, 1, g.o, sums * 4);
    plan.workspace_bytes = bytes_of(images + sums, sizeof(float));
  }
  return true;
}

}  // namespace mlx::kernels::avx512
