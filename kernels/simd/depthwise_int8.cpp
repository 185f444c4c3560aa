// Quantized depthwise 3x3 convolution of stride 1 or 2: u8|s8 by s8 to u8|s8|f32, channels in the lanes. Sums of bytes
// are exact.
#include "kernels/simd/bytes.h"
#include "kernels/simd/depthwise.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// A row of results for up to 16 channels, of which `left` exist.
struct ByteLine {
  const std::uint8_t* from;  // source row under the first kernel row, at the first channel
  const std::int32_t* w;     // packed weights of that kernel row
  Epilogue epilogue;
  std::int64_t o, left;
  void* y;
  std::int64_t y_at;
  std::int64_t row, pixel, w_step;  // strides of rows, of pixels (of y too), and of taps
  std::int64_t width, from_width, before;
  std::int64_t rows;  // kernel rows that are within the source
};

// P neighbouring pixels from `at` on, whose windows are within the source's rows.
template <int P, int S, bool Signed, DType Y, bool Gelu>
void byte_pixels(const ByteLine& l, std::int64_t at) {
  constexpr int kValues = (P - 1) * S + 3;
  Ints sum[P];
  MLX_UNROLL
  for (int p = 0; p < P; ++p) sum[p] = integers(0);
  const std::uint8_t* from = l.from + (at * S - l.before) * l.pixel;
  const std::int32_t* w = l.w;
  for (std::int64_t r = 0; r < l.rows; ++r, from += l.row, w += kSide * l.w_step) {
    Ints value[kValues], weight[kSide];
    MLX_UNROLL
    for (int t = 0; t < kSide; ++t) weight[t] = load(w + t * l.w_step);
    MLX_UNROLL
    for (int i = 0; i < kValues; ++i) value[i] = load_narrow<Signed>(from + i * l.pixel, l.left);
    MLX_UNROLL
    for (int t = 0; t < kSide; ++t) {
      MLX_UNROLL
      for (int p = 0; p < P; ++p) sum[p] = dot_low(value[p * S + t], weight[t], sum[p]);
    }
  }
  MLX_UNROLL
  for (int p = 0; p < P; ++p) store_sums<Y, Gelu>(l.epilogue, sum[p], l.o, l.y, l.y_at + (at + p) * l.pixel, l.left);
}

// A pixel whose window extends over the left or right edge.
template <bool Signed, DType Y, bool Gelu>
void byte_edge(const ByteLine& l, std::int64_t at, std::int64_t stride) {
  const std::int64_t first = at * stride - l.before;
  const Range taps = taps_within(first, l.from_width);
  Ints sum = integers(0);
  for (std::int64_t r = 0; r < l.rows; ++r)
    for (std::int64_t t = taps.begin; t < taps.end; ++t)
      sum = dot_low(load_narrow<Signed>(l.from + r * l.row + (first + t) * l.pixel, l.left),
                    load(l.w + (r * kSide + t) * l.w_step), sum);
  store_sums<Y, Gelu>(l.epilogue, sum, l.o, l.y, l.y_at + at * l.pixel, l.left);
}

template <int S, bool Signed, DType Y, bool Gelu>
void byte_line(const ByteLine& l) {
  constexpr int kMany = kHeld < 32 ? 2 : S == 1 ? 8 : 4;  // sums, pixels and weights fill the registers
  const Range whole = inner(l.width, l.from_width, S, l.before);
  std::int64_t at = 0;
  for (; at < whole.begin; ++at) byte_edge<Signed, Y, Gelu>(l, at, S);
  for (; at + kMany <= whole.end; at += kMany) byte_pixels<kMany, S, Signed, Y, Gelu>(l, at);
  for (; at + 2 <= whole.end; at += 2) byte_pixels<2, S, Signed, Y, Gelu>(l, at);
  for (; at < whole.end; ++at) byte_pixels<1, S, Signed, Y, Gelu>(l, at);
  for (; at < l.width; ++at) byte_edge<Signed, Y, Gelu>(l, at, S);
}

// Sliced by rows of y.
template <int S, bool Signed>
void byte_forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  auto* factors = reinterpret_cast<float*>(static_cast<char*>(args.workspace) + s->slice_bytes * slice);
  ByteLine l{};
  l.epilogue = make_epilogue(s, args, g.c, factors);
  l.row = g.w * g.c, l.pixel = g.c, l.w_step = padded_channels(g);
  l.width = g.ow, l.from_width = g.w, l.before = g.pl;
  l.y = args.outputs[0];
  const Range items = range_of(s, phase, slice);
  by_result(g.y_type, s->attrs.activation, [&]<DType Y, bool Gelu>() {
    for (std::int64_t item = items.begin; item < items.end; ++item) {
      const std::int64_t n = item / g.oh, first = item % g.oh * S - g.pt;
      const Range rows = taps_within(first, g.h);
      l.rows = rows.end - rows.begin;
      const std::int64_t top = l.rows > 0 ? first + rows.begin : 0;
      for (l.o = 0; l.o < g.c; l.o += 16) {
        l.left = g.c - l.o;
        l.from = static_cast<const std::uint8_t*>(args.inputs[0]) + (n * g.h + top) * l.row + l.o;
        l.w = static_cast<const std::int32_t*>(args.packed) + rows.begin * kSide * l.w_step + l.o;
        l.y_at = item * g.ow * g.c + l.o;
        byte_line<S, Signed, Y, Gelu>(l);
      }
    }
  });
}

// Packs w[C, taps] as [taps][C padded to 16], each a 16-bit number with zeros above.
void pack_bytes(const void* opaque, const void* weights, const void*, void* packed) {
  const State* s = state_of(opaque);
  const std::int64_t stride = padded_channels(s->g);
  const auto* w = static_cast<const std::int8_t*>(weights);
  auto* out = static_cast<std::int32_t*>(packed);
  for (std::int64_t tap = 0; tap < kTaps; ++tap)
    for (std::int64_t c = 0; c < stride; ++c)
      out[tap * stride + c] = c < s->g.c ? static_cast<std::uint16_t>(std::int16_t{w[c * kTaps + tap]}) : 0;
}

}  // namespace

bool prepare_depthwise_int8(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, byte_forward<1, false>);
  if (!s || !s->g.quantized || !is_depthwise(s->g)) return false;
  const Geometry& g = s->g;
  const bool is_signed = g.x_type == DType::kS8;
  if (g.sh == 1)
    plan.run = is_signed ? byte_forward<1, true> : byte_forward<1, false>;
  else
    plan.run = is_signed ? byte_forward<2, true> : byte_forward<2, false>;
  cut(s, plan, 0, g.n * g.oh, g.n * (g.h * g.w + g.oh * g.ow) * g.c * 4);
  plan.pack = pack_bytes;
  plan.layout_count = 0;
  plan.packed_input = 1;
  plan.packed_bytes = bytes_of(kTaps * padded_channels(g), 4);
  s->slice_bytes = (epilogue_floats(g.c) * 4 + 63) / 64 * 64;
  plan.workspace_bytes = bytes_of(s->slice_bytes * s->slices[0], 1);
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
