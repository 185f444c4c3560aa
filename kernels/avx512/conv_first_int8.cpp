// AVX-512 VNNI convolution for images of up to four channels, u8|s8 by s8 to u8|s8|f32. Four neighbours of a kernel row
// (a quad) are multiplied at once. A row's KW·C taps are padded to a multiple of four with zero weights, so that pixels
// are read straight from the padded image. Signed sources are stored with 128 added, and 128 times the sum of the
// weights is subtracted, so sums are exact. Sliced by image.
#include "kernels/simd/conv_first.h"

#include "kernels/avx512/avx512.h"

namespace mlx::kernels::avx512 {
namespace {

constexpr std::int64_t kMostQuads =
    kMostConvKernel * kMostConvKernel;  // each has at least one pixel's channels or four taps

std::int64_t row_quads(const Geometry& g) {
  return (g.kw * g.c + 3) / 4;
}
std::int64_t quads(const Geometry& g) {
  return g.kh * row_quads(g);
}
// A quad at the end of the last row reads up to three bytes further. Rows are written in whole vectors.
std::int64_t image_bytes(const Geometry& g) {
  return (reach_h(g) * row_size(g) + 3 + 63) / 64 * 64;
}

// Workspace of a slice: the padded image, then the factors of make_factors.
std::int64_t slice_bytes(const Geometry& g) {
  return image_bytes(g) + padded_channels(g) * 8;
}

struct Int8 {
  const std::uint8_t* image;
  const std::int8_t* weights;  // packed: [quads][channels padded to 16][4]
  const std::int32_t* start;   // packed after the weights: -128 Σ w for signed sources, else 0
  const std::int32_t* offsets;
  std::int64_t quads, stride;  // stride: bytes of a quad's weights
  std::int64_t step, width;    // bytes between windows; channels of y
  const float *scale, *bias;   // in steps of y; per channel, padded
  float low, high;             // the range of the activation, in steps of y
  bool tame;                   // no result is NaN or beyond 2^30, so conversion and packing saturate correctly
  void* y;                     // of this image
};

// y = round(clamp(real / scale_y)). real may be NaN (gives 0) or huge. Packing saturates the rest.
__m512i to_integers(__m512 value, bool tame) {
  if (tame) return _mm512_cvtps_epi32(value);
  const __mmask16 ordered = _mm512_cmp_ps_mask(value, value, _CMP_ORD_Q);
  const __m512 bounded = _mm512_max_ps(_mm512_set1_ps(-1000.0f), _mm512_min_ps(_mm512_set1_ps(1000.0f), value));
  return _mm512_maskz_cvtps_epi32(ordered, bounded);
}

template <DType Y>
void store_vector(void* y, std::int64_t at, __m512 value, __mmask16 mask, bool tame) {
  if constexpr (Y == DType::kF32) {
    _mm512_mask_storeu_ps(static_cast<float*>(y) + at, mask, value);
  } else if constexpr (Y == DType::kU8) {
    const __m512i positive = _mm512_max_epi32(to_integers(value, tame), _mm512_setzero_si512());
    _mm_mask_storeu_epi8(static_cast<std::uint8_t*>(y) + at, mask, _mm512_cvtusepi32_epi8(positive));
  } else {
    _mm_mask_storeu_epi8(static_cast<std::int8_t*>(y) + at, mask, _mm512_cvtsepi32_epi8(to_integers(value, tame)));
  }
}

// Four vectors to 4 × 16 saturated bytes, in order. Packing works within 128-bit lanes; the permutation restores the
// order.
template <DType Y>
__m512i pack_four(__m512i a, __m512i b, __m512i c, __m512i d) {
  const __m512i ab = _mm512_packs_epi32(a, b), cd = _mm512_packs_epi32(c, d);
  const __m512i bytes = Y == DType::kU8 ? _mm512_packus_epi16(ab, cd) : _mm512_packs_epi16(ab, cd);
  return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), bytes);
}

// Stores the bytes of 4 / N pixels, `width` bytes apart.
template <int N>
void store_four(char* y, std::int64_t width, __m512i bytes) {
  if (width == N * 16) return _mm512_storeu_si512(y, bytes);
  const auto place = [&](int k) { return reinterpret_cast<__m128i*>(y + k / N * width + k % N * 16); };
  _mm_storeu_si128(place(0), _mm512_castsi512_si128(bytes));
  _mm_storeu_si128(place(1), _mm512_extracti32x4_epi32(bytes, 1));
  _mm_storeu_si128(place(2), _mm512_extracti32x4_epi32(bytes, 2));
  _mm_storeu_si128(place(3), _mm512_extracti32x4_epi32(bytes, 3));
}

// Computes P pixels of an output row from pixel `at` of y on, in N vectors of channels from `o` on.
template <int P, int N, DType Y>
void pixels(const Int8& f, const std::uint8_t* window, std::int64_t at, std::int64_t o, __mmask16 last) {
  __m512i sum[P][N];
  __m512 scale[N], bias[N];
  MLX_UNROLL
  for (int v = 0; v < N; ++v) {
    const __m512i start = _mm512_loadu_si512(f.start + o + 16 * v);
    MLX_UNROLL
    for (int p = 0; p < P; ++p) sum[p][v] = start;
  }
  const std::int8_t* w = f.weights + o * 4;
  for (std::int64_t q = 0; q < f.quads; ++q, w += f.stride) {
    const std::uint8_t* x = window + f.offsets[q];
    __m512i weight[N];
    MLX_UNROLL
    for (int v = 0; v < N; ++v) weight[v] = _mm512_loadu_si512(w + 64 * v);
    MLX_UNROLL
    for (int p = 0; p < P; ++p) {
      std::int32_t four;
      __builtin_memcpy(&four, x, 4);
      x += f.step;
      const __m512i value = _mm512_set1_epi32(four);
      MLX_UNROLL
      for (int v = 0; v < N; ++v) sum[p][v] = _mm512_dpbusd_epi32(sum[p][v], value, weight[v]);
    }
  }
  MLX_UNROLL
  for (int v = 0; v < N; ++v) {
    scale[v] = _mm512_loadu_ps(f.scale + o + 16 * v);
    bias[v] = _mm512_loadu_ps(f.bias + o + 16 * v);
  }
  const Bounds bounds{broadcast(f.low), broadcast(f.high)};
  const auto real = [&](int p, int v) {
    return bounded16(bounds, {_mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[p][v]), scale[v], bias[v])}).v;
  };
  if constexpr (Y != DType::kF32 && P * N % 4 == 0) {
    if (last == 0xffff && f.tame) {
      constexpr int kPixels = 4 / N;
      char* y = static_cast<char*>(f.y) + at * f.width + o;
      MLX_UNROLL
      for (int p = 0; p < P; p += kPixels, y += kPixels * f.width) {
        __m512i four[4];
        MLX_UNROLL
        for (int k = 0; k < 4; ++k) four[k] = _mm512_cvtps_epi32(real(p + k / N, k % N));
        store_four<N>(y, f.width, pack_four<Y>(four[0], four[1], four[2], four[3]));
      }
      return;
    }
  }
  MLX_UNROLL
  for (int p = 0; p < P; ++p) {
    MLX_UNROLL
    for (int v = 0; v < N; ++v)
      store_vector<Y>(f.y, (at + p) * f.width + o + 16 * v, real(p, v), lanes_of(v, N, {last}).bits, f.tame);
  }
}

template <int N, DType Y>
void output_row(const Geometry& g, const Int8& f, std::int64_t oh, std::int64_t o, __mmask16 last) {
  const std::uint8_t* window = f.image + oh * g.sh * row_size(g);
  const std::int64_t row = oh * g.ow;
  constexpr int kMany = N == 1 ? 16 : 8;
  std::int64_t ow = 0;
  for (; ow + kMany <= g.ow; ow += kMany) pixels<kMany, N, Y>(f, window + ow * f.step, row + ow, o, last);
  for (; ow + 4 <= g.ow; ow += 4) pixels<4, N, Y>(f, window + ow * f.step, row + ow, o, last);
  for (; ow < g.ow; ++ow) pixels<1, N, Y>(f, window + ow * f.step, row + ow, o, last);
}

template <DType Y>
void convolve(const Geometry& g, const Int8& f) {
  for (std::int64_t oh = 0; oh < g.oh; ++oh)
    for (std::int64_t o = 0; o < g.o; o += 32) {
      if (g.o - o > 16)
        output_row<2, Y>(g, f, oh, o, lanes(g.o - o - 16).bits);
      else
        output_row<1, Y>(g, f, oh, o, lanes(g.o - o).bits);
    }
}

void fill_image(const Geometry& g, std::uint8_t* image, std::uint8_t zero) {
  const __m512i value = _mm512_set1_epi8(static_cast<char>(zero));
  for (std::int64_t i = 0; i < image_bytes(g); i += 64) _mm512_storeu_si512(image + i, value);
}

// `flip` 0x80 adds 128 to s8, which makes it u8.
void copy_bytes(const Geometry& g, const std::uint8_t* x, std::uint8_t* image, std::uint8_t flip) {
  const __m512i change = _mm512_set1_epi8(static_cast<char>(flip));
  copy_rows(g, x, image, [change](const std::uint8_t* from, std::uint8_t* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; i += 64) {
      const std::int64_t left = count - i;
      const __mmask64 mask = left >= 64 ? ~__mmask64{0} : (__mmask64{1} << left) - 1;
      _mm512_mask_storeu_epi8(to + i, mask, _mm512_xor_si512(change, _mm512_maskz_loadu_epi8(mask, from + i)));
    }
  });
}

// The real value of one step of y.
float step_of(const State* s) {
  return s->g.y_type == DType::kF32 ? 1.0f : s->attrs.scale_y;
}

// The conversion from sums to steps of y, per channel: scale and bias, each [channels padded]. Returns true if every
// result is `tame`. That is false if a scale or a bias is NaN, because no comparison with NaN holds.
bool make_factors(const State* s, const Args& args, float* factors) {
  const Geometry& g = s->g;
  const std::int64_t channels = padded_channels(g);
  const float *b = f32_in(s, args, 2), *w_scales = f32_in(s, args, 3);
  const double largest = 255.0 * 128.0 * static_cast<double>(taps(g));
  const double step = step_of(s);
  bool tame = true;
  for (std::int64_t o = 0; o < channels; ++o) {
    const double scale = o < g.o ? static_cast<double>(s->attrs.scale_x) * w_scales[o] / step : 0.0;
    const double bias = o < g.o && b ? b[o] / step : 0.0;
    if (!(__builtin_fabs(scale) * largest + __builtin_fabs(bias) < 1e9)) tame = false;
    factors[o] = static_cast<float>(scale);
    factors[channels + o] = static_cast<float>(bias);
  }
  return tame;
}

void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  std::int32_t offsets[kMostQuads];
  for (std::int64_t q = 0; q < quads(g); ++q)
    offsets[q] = static_cast<std::int32_t>(q / row_quads(g) * row_size(g) + q % row_quads(g) * 4);
  auto* image = static_cast<std::uint8_t*>(args.workspace) + slice_bytes(g) * slice;
  auto* factors = reinterpret_cast<float*>(image + image_bytes(g));
  const std::int64_t stride = padded_channels(g) * 4, plane = g.oh * g.ow * g.o;
  const auto* weights = static_cast<const std::int8_t*>(args.packed);
  const auto* start = reinterpret_cast<const std::int32_t*>(weights + quads(g) * stride);
  const Activation activation = s->attrs.activation;
  const float low = activation == Activation::kNone ? -__builtin_inff() : 0.0f;
  const float high = activation == Activation::kRelu6 ? 6.0f / step_of(s) : __builtin_inff();
  const std::uint8_t flip = g.x_type == DType::kS8 ? 0x80 : 0;
  const bool tame = make_factors(s, args, factors);
  Int8 f{image, weights, start, offsets, quads(g), stride, g.sw * g.c, g.o, factors, factors + padded_channels(g),
         low,   high,    tame,  nullptr};
  fill_image(g, image, flip);
  const Range images = range_of(s, phase, slice);
  for (std::int64_t n = images.begin; n < images.end; ++n) {
    copy_bytes(g, static_cast<const std::uint8_t*>(args.inputs[0]) + n * g.h * g.w * g.c, image, flip);
    f.y = static_cast<char*>(args.outputs[0]) + n * plane * (g.y_type == DType::kF32 ? 4 : 1);
    if (g.y_type == DType::kF32)
      convolve<DType::kF32>(g, f);
    else if (g.y_type == DType::kU8)
      convolve<DType::kU8>(g, f);
    else
      convolve<DType::kS8>(g, f);
  }
}

// Packs w[O, KH, KW·C] as [KH, quads of a row][O padded to 16][4], then the initial values of the sums. For signed
// pixels, which are stored with 128 added, these cancel the excess.
template <bool Signed>
void pack(const void* opaque, const void* weights, const void*, void* packed) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  const std::int64_t channels = padded_channels(g), in_row = g.kw * g.c;
  const auto* w = static_cast<const std::int8_t*>(weights);
  auto* out = static_cast<std::int8_t*>(packed);
  auto* start = reinterpret_cast<std::int32_t*>(out + quads(g) * channels * 4);
  for (std::int64_t o = 0; o < channels; ++o) {
    std::int32_t sum = 0;
    for (std::int64_t q = 0; q < quads(g); ++q)
      for (std::int64_t i = 0; i < 4; ++i) {
        const std::int64_t kh = q / row_quads(g), tap = q % row_quads(g) * 4 + i;
        const std::int8_t weight = o < g.o && tap < in_row ? w[(o * g.kh + kh) * in_row + tap] : std::int8_t{0};
        out[(q * channels + o) * 4 + i] = weight;
        sum += weight;
      }
    start[o] = Signed ? -128 * sum : 0;
  }
}

}  // namespace

bool prepare_conv_first_int8(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, forward);
  if (!s) return false;
  const Geometry& g = s->g;
  if (!g.quantized || !is_first_conv(g) || problem.attrs.activation == Activation::kGelu) return false;
  if (image_bytes(g) > INT32_MAX) return false;  // offsets
  cut(s, plan, 0, g.n, g.n * g.oh * g.ow * g.o * 4);
  plan.packed_input = 1;
  plan.packed_bytes = bytes_of((quads(g) + 1) * padded_channels(g), 4);
  plan.pack = g.x_type == DType::kS8 ? pack<true> : pack<false>;
  plan.layout_count = 0;
  plan.workspace_bytes = bytes_of(slice_bytes(g) * s->slices[0], 1);
  return true;
}

}  // namespace mlx::kernels::avx512
