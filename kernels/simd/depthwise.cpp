// Depthwise 3x3 convolution, f32, stride 1 and 2: forward and the gradient to the images. Sliced by rows of the result.
// An element's sum runs over its taps in order, whatever the slices.
//
// Used without oneDNN. At MobileNetV2's shapes (96x96, batch 32) oneDNN 2.6 measured 1.1-2.2 times as fast forward,
// 1.1-1.7 times to the images and 1.4-3.7 times to the weights, so the table asks it first.
#include "kernels/simd/depthwise.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// A row of results for up to 16 channels: y[i] is the sum over kernel rows and taps of the source's pixel
// i * stride - left + tap, times that tap's weight.
struct Line {
  const float* from;                // source row under the first kernel row
  const float* w;                   // packed weights of that kernel row
  float* y;                         //
  std::int64_t row, pixel, w_step;  // floats between rows, between pixels (of y too), and between taps
  std::int64_t width, from_width, left;
  std::int64_t rows;  // kernel rows that are within the source
  Floats start;       // bias
  Bounds bounds;
  Mask mask;
};

template <bool Tail>
void finish(const Line& l, std::int64_t at, Floats sum) {
  store<Tail>(l.y + at * l.pixel, bounded16(l.bounds, sum), l.mask);
}

// P neighbouring pixels from `at` on, whose windows are within the source's rows.
template <int P, int S, bool Tail>
void pixels(const Line& l, std::int64_t at) {
  constexpr int kValues = (P - 1) * S + 3;
  Floats sum[P];
  MLX_UNROLL
  for (int p = 0; p < P; ++p) sum[p] = l.start;
  const float *from = l.from + (at * S - l.left) * l.pixel, *w = l.w;
  for (std::int64_t r = 0; r < l.rows; ++r, from += l.row, w += kSide * l.w_step) {
    Floats value[kValues], weight[kSide];
    MLX_UNROLL
    for (int t = 0; t < kSide; ++t) weight[t] = load(w + t * l.w_step);
    MLX_UNROLL
    for (int i = 0; i < kValues; ++i) value[i] = load<Tail>(from + i * l.pixel, l.mask);
    MLX_UNROLL
    for (int t = 0; t < kSide; ++t) {
      MLX_UNROLL
      for (int p = 0; p < P; ++p) sum[p] = fma(value[p * S + t], weight[t], sum[p]);
    }
  }
  MLX_UNROLL
  for (int p = 0; p < P; ++p) finish<Tail>(l, at + p, sum[p]);
}

// A pixel whose window extends over the left or right edge.
template <bool Tail>
void edge(const Line& l, std::int64_t at, std::int64_t stride) {
  const std::int64_t first = at * stride - l.left;
  const Range taps = taps_within(first, l.from_width);
  Floats sum = l.start;
  for (std::int64_t r = 0; r < l.rows; ++r)
    for (std::int64_t t = taps.begin; t < taps.end; ++t)
      sum = fma(load<Tail>(l.from + r * l.row + (first + t) * l.pixel, l.mask), load(l.w + (r * kSide + t) * l.w_step),
                sum);
  finish<Tail>(l, at, sum);
}

template <int S, bool Tail>
void line(const Line& l) {
  constexpr int kMany = kHeld < 32 ? 2 : S == 1 ? 8 : 4;  // sums, pixels and weights fill the registers
  const Range whole = inner(l.width, l.from_width, S, l.left);
  std::int64_t at = 0;
  for (; at < whole.begin; ++at) edge<Tail>(l, at, S);
  for (; at + kMany <= whole.end; at += kMany) pixels<kMany, S, Tail>(l, at);
  for (; at + 2 <= whole.end; at += 2) pixels<2, S, Tail>(l, at);
  for (; at < whole.end; ++at) pixels<1, S, Tail>(l, at);
  for (; at < l.width; ++at) edge<Tail>(l, at, S);
}

// Computes the rows in `range` of y[n,h,w,c] from source[n,from_h,from_w,c].
struct Images {
  const float *source, *packed, *bias;
  float* y;
  std::int64_t from_h, from_w, h, w, c, top, left;
  Bounds bounds;
};
template <int S>
void correlate(const Images& m, Range range, std::int64_t w_step) {
  for (std::int64_t item = range.begin; item < range.end; ++item) {
    const std::int64_t n = item / m.h, first = item % m.h * S - m.top;
    const Range rows = taps_within(first, m.from_h);
    Line l{};
    l.row = m.from_w * m.c, l.pixel = m.c, l.w_step = w_step;
    l.width = m.w, l.from_width = m.from_w, l.left = m.left;
    l.rows = rows.end - rows.begin;
    l.bounds = m.bounds;
    const float* from = l.rows > 0 ? m.source + (n * m.from_h + first + rows.begin) * l.row : m.source;
    for (std::int64_t c = 0; c < m.c; c += 16) {
      l.mask = lanes(m.c - c);
      l.from = from + c;
      l.w = m.packed + rows.begin * kSide * w_step + c;
      l.y = m.y + item * m.w * m.c + c;
      l.start = m.bias ? load(m.bias + c, l.mask) : zeros();
      if (is_full(l.mask))
        line<S, false>(l);
      else
        line<S, true>(l);
    }
  }
}

void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  const Images m{f32_in(s, args, 0),
                 static_cast<const float*>(args.packed),
                 f32_in(s, args, 2),
                 f32_out(s, args, 0),
                 g.h,
                 g.w,
                 g.oh,
                 g.ow,
                 g.c,
                 g.pt,
                 g.pl,
                 bounds_of(s->attrs.activation)};
  const Range rows = range_of(s, phase, slice);
  if (g.sh == 1)
    correlate<1>(m, rows, padded_channels(g));
  else
    correlate<2>(m, rows, padded_channels(g));
}

// With stride 1 the gradient is a convolution of dy with the reversed kernel, which pack() has prepared.
void backward_data(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  const Images m{f32_in(s, args, 0),
                 static_cast<const float*>(args.packed),
                 nullptr,
                 f32_out(s, args, 0),
                 g.oh,
                 g.ow,
                 g.h,
                 g.w,
                 g.c,
                 kSide - 1 - g.pt,
                 kSide - 1 - g.pl,
                 bounds_of(Activation::kNone)};
  correlate<1>(m, range_of(s, phase, slice), padded_channels(g));
}

// With stride 2 a row of dx has gradients from at most two rows of dy, each through one row of the kernel.
struct Sources {
  const float *dy[2], *w[2];
  int count = 0;
};
Sources sources_of(const Geometry& g, const float* dy, const float* packed, std::int64_t n, std::int64_t h) {
  Sources sources{};
  for (std::int64_t kh = 0; kh < kSide; ++kh) {
    const std::int64_t twice = h + g.pt - kh;
    if (twice < 0 || twice % 2 != 0 || twice / 2 >= g.oh) continue;
    sources.dy[sources.count] = dy + (n * g.oh + twice / 2) * g.ow * g.c;
    sources.w[sources.count++] = packed + kh * kSide * padded_channels(g);
  }
  return sources;
}

template <bool Tail>
void one_apart(const Geometry& g, const Sources& sources, float* dx, std::int64_t w, std::int64_t c, Mask mask) {
  Floats sum = zeros();
  for (int r = 0; r < sources.count; ++r)
    for (std::int64_t kw = 0; kw < kSide; ++kw) {
      const std::int64_t twice = w + g.pl - kw;
      if (twice < 0 || twice % 2 != 0 || twice / 2 >= g.ow) continue;
      sum = fma(load<Tail>(sources.dy[r] + twice / 2 * g.c + c, mask), load(sources.w[r] + kw * padded_channels(g) + c),
                sum);
    }
  store<Tail>(dx + w * g.c + c, sum, mask);
}

// 2P pixels of dx. Pixel 2j - left gets dy[j] through the first tap and dy[j - 1] through the last; the next pixel gets
// dy[j] through the middle tap.
template <int P, bool Tail>
void pairs_apart(const Geometry& g, const Sources& sources, float* dx, std::int64_t j, std::int64_t c, Mask mask) {
  Floats even[P], odd[P];
  MLX_UNROLL
  for (int p = 0; p < P; ++p) even[p] = odd[p] = zeros();
  const std::int64_t w_step = padded_channels(g);
  for (int r = 0; r < sources.count; ++r) {
    const float *dy = sources.dy[r] + (j - 1) * g.c + c, *w = sources.w[r] + c;
    const Floats first = load(w), middle = load(w + w_step), last = load(w + 2 * w_step);
    Floats value[P + 1];
    MLX_UNROLL
    for (int i = 0; i <= P; ++i) value[i] = load<Tail>(dy + i * g.c, mask);
    MLX_UNROLL
    for (int p = 0; p < P; ++p) {
      even[p] = fma(value[p + 1], first, fma(value[p], last, even[p]));
      odd[p] = fma(value[p + 1], middle, odd[p]);
    }
  }
  float* to = dx + (2 * j - g.pl) * g.c + c;
  MLX_UNROLL
  for (int p = 0; p < P; ++p) {
    store<Tail>(to + 2 * p * g.c, even[p], mask);
    store<Tail>(to + (2 * p + 1) * g.c, odd[p], mask);
  }
}

template <bool Tail>
void row_apart(const Geometry& g, const Sources& sources, float* dx, std::int64_t c, Mask mask) {
  constexpr int kMany = kHeld < 32 ? 1 : 4;
  std::int64_t j = 1, w = 2 - g.pl;
  for (std::int64_t i = 0; i < w && i < g.w; ++i) one_apart<Tail>(g, sources, dx, i, c, mask);
  for (; j + kMany <= g.ow && w + 2 * kMany <= g.w; j += kMany, w += 2 * kMany)
    pairs_apart<kMany, Tail>(g, sources, dx, j, c, mask);
  for (; j < g.ow && w + 2 <= g.w; ++j, w += 2) pairs_apart<1, Tail>(g, sources, dx, j, c, mask);
  for (; w < g.w; ++w) one_apart<Tail>(g, sources, dx, w, c, mask);
}

void backward_data_apart(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  const Range rows = range_of(s, phase, slice);
  for (std::int64_t item = rows.begin; item < rows.end; ++item) {
    const Sources sources =
        sources_of(g, f32_in(s, args, 0), static_cast<const float*>(args.packed), item / g.h, item % g.h);
    float* dx = f32_out(s, args, 0) + item * g.w * g.c;
    for (std::int64_t c = 0; c < g.c; c += 16) {
      const Mask mask = lanes(g.c - c);
      if (is_full(mask))
        row_apart<false>(g, sources, dx, c, mask);
      else
        row_apart<true>(g, sources, dx, c, mask);
    }
  }
}

// Packs w[C, taps] as [taps][C padded to 16], with the taps reversed if `turned`.
void pack_taps(const State* s, const void* weights, void* packed, bool turned) {
  const std::int64_t stride = padded_channels(s->g);
  const auto* w = static_cast<const float*>(weights);
  auto* out = static_cast<float*>(packed);
  for (std::int64_t tap = 0; tap < kTaps; ++tap)
    for (std::int64_t c = 0; c < stride; ++c)
      out[(turned ? kTaps - 1 - tap : tap) * stride + c] = c < s->g.c ? w[c * kTaps + tap] : 0.0f;
}
void pack(const void* opaque, const void* weights, const void*, void* packed) {
  pack_taps(state_of(opaque), weights, packed, false);
}
void pack_turned(const void* opaque, const void* weights, const void*, void* packed) {
  pack_taps(state_of(opaque), weights, packed, true);
}

}  // namespace

bool prepare_depthwise(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, forward);
  if (!s) return false;
  const Geometry& g = s->g;
  if (g.quantized || !is_depthwise(g) || problem.attrs.activation == Activation::kGelu) return false;
  const bool back = problem.op == Op::kConv2dBackwardData;
  plan.pack = back && g.sh == 1 ? pack_turned : pack;
  plan.layout_count = 0;
  if (back) plan.run = g.sh == 1 ? backward_data : backward_data_apart;
  cut(s, plan, 0, g.n * (back ? g.h : g.oh), g.n * (g.h * g.w + g.oh * g.ow) * g.c * 4);
  plan.packed_input = 1;
  plan.packed_bytes = bytes_of(kTaps * padded_channels(g), sizeof(float));
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
