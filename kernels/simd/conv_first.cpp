// Direct convolution for images of up to four channels (a network's first layer), f32 forward: a broadcast pixel times
// a vector of output channels. Sliced by image.
#include "kernels/simd/conv_first.h"

namespace mlx::kernels::MLX_ISA {
namespace {

struct Forward {
  const float* image;    // padded
  const float* weights;  // packed: [taps][channels padded to 16]
  const float* bias;
  Bounds bounds;                // of y
  const std::int32_t* offsets;  // of each tap, in the padded image
  std::int64_t taps, stride;    // stride: floats between the weights of successive taps
};

// Computes P pixels of one output row in N vectors of channels from `o` on. `row` is the first pixel's window; the next
// windows are Step (or, if that is 0, `any_step`) elements apart.
template <int P, int N, int Step>
void pixels(const Forward& f, const float* row, std::int64_t any_step, float* y, std::int64_t width, std::int64_t o,
            Mask last) {
  const std::int64_t step = Step > 0 ? Step : any_step;
  Floats sum[P][N];
  MLX_UNROLL
  for (int v = 0; v < N; ++v) {
    const Floats start = f.bias ? load(f.bias + o + 16 * v, lanes_of(v, N, last)) : zeros();
    MLX_UNROLL
    for (int p = 0; p < P; ++p) sum[p][v] = start;
  }
  const float* w = f.weights + o;
  for (std::int64_t tap = 0; tap < f.taps; ++tap, w += f.stride) {
    const float* at = row + f.offsets[tap];
    Floats weight[N];
    MLX_UNROLL
    for (int v = 0; v < N; ++v) weight[v] = load(w + 16 * v);
    MLX_UNROLL
    for (int p = 0; p < P; ++p) {
      const Floats value = broadcast(at[p * step]);
      MLX_UNROLL
      for (int v = 0; v < N; ++v) sum[p][v] = fma(value, weight[v], sum[p][v]);
    }
  }
  float* out = y + o;
  if (is_full(last)) {  // masked stores are slower
    MLX_UNROLL
    for (int p = 0; p < P; ++p) {
      MLX_UNROLL
      for (int v = 0; v < N; ++v) store(out + p * width + 16 * v, bounded16(f.bounds, sum[p][v]));
    }
    return;
  }
  MLX_UNROLL
  for (int p = 0; p < P; ++p) {
    MLX_UNROLL
    for (int v = 0; v < N; ++v) store(out + p * width + 16 * v, bounded16(f.bounds, sum[p][v]), lanes_of(v, N, last));
  }
}

// The number of pixels whose sums fit in the registers, beside the weights and one pixel.
constexpr int pixels_at_once(int vectors) {
  return kHeld < 32 ? 6 : vectors == 4 ? 6 : 14;
}

template <int N, int Step>
void output_row(const Geometry& g, const Forward& f, const float* window, float* y, std::int64_t o, Mask last) {
  const std::int64_t step = g.sw * g.c;
  constexpr int kMany = pixels_at_once(N);
  std::int64_t ow = 0;
  for (; ow + kMany <= g.ow; ow += kMany)
    pixels<kMany, N, Step>(f, window + ow * step, step, y + ow * g.o, g.o, o, last);
  for (; ow + 4 <= g.ow; ow += 4) pixels<4, N, Step>(f, window + ow * step, step, y + ow * g.o, g.o, o, last);
  for (; ow < g.ow; ++ow) pixels<1, N, Step>(f, window + ow * step, step, y + ow * g.o, g.o, o, last);
}

// Computes all channels of a row before the next row, so that each line of y is written while it is in the first-level
// cache.
template <int Step>
void forward_image(const Geometry& g, const Forward& f, float* y) {
  for (std::int64_t oh = 0; oh < g.oh; ++oh, y += g.ow * g.o) {
    const float* window = f.image + oh * g.sh * row_size(g);
    std::int64_t o = 0;
    if constexpr (kWide == 4) {
      for (; o + 64 <= g.o; o += 64) output_row<4, Step>(g, f, window, y, o, every());
      for (; o + 16 < g.o; o += 32) output_row<2, Step>(g, f, window, y, o, lanes(g.o - o - 16));
    }
    for (; o < g.o; o += 16) output_row<1, Step>(g, f, window, y, o, lanes(g.o - o));
  }
}

void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  std::int32_t offsets[kMostConvKernel * kMostConvKernel * kFewChannels];
  const std::int64_t in_row = g.kw * g.c;
  for (std::int64_t tap = 0; tap < taps(g); ++tap)
    offsets[tap] = static_cast<std::int32_t>(tap / in_row * row_size(g) + tap % in_row);
  float* image = static_cast<float*>(args.workspace) + image_floats(g) * slice;
  const Forward f{image,
                  static_cast<const float*>(args.packed),
                  f32_in(s, args, 2),
                  bounds_of(s->attrs.activation),
                  offsets,
                  taps(g),
                  padded_channels(g)};
  clear_image(g, image);
  const Range images = range_of(s, phase, slice);
  for (std::int64_t n = images.begin; n < images.end; ++n) {
    copy_image(g, f32_in(s, args, 0) + n * g.h * g.w * g.c, image);
    float* y = f32_out(s, args, 0) + n * g.oh * g.ow * g.o;
    if (g.sw * g.c == 1)
      forward_image<1>(g, f, y);
    else if (g.sw * g.c == 3)
      forward_image<3>(g, f, y);
    else
      forward_image<0>(g, f, y);
  }
}

// Packs w[O, taps] as [taps, O padded to 16].
void pack(const void* opaque, const void* weights, const void*, void* packed) {
  const State* s = state_of(opaque);
  const std::int64_t count = taps(s->g), stride = padded_channels(s->g);
  const auto* w = static_cast<const float*>(weights);
  auto* out = static_cast<float*>(packed);
  for (std::int64_t tap = 0; tap < count; ++tap)
    for (std::int64_t o = 0; o < stride; ++o) out[tap * stride + o] = o < s->g.o ? w[o * count + tap] : 0.0f;
}

}  // namespace

bool prepare_conv_first(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, forward);
  if (!s) return false;
  const Geometry& g = s->g;
  if (g.quantized || !is_first_conv(g) || problem.attrs.activation == Activation::kGelu) return false;
  if (image_floats(g) > INT32_MAX) return false;  // offsets
  cut(s, plan, 0, g.n, g.n * g.oh * g.ow * g.o * 4);
  plan.packed_input = 1;
  plan.packed_bytes = bytes_of(taps(g) * padded_channels(g), sizeof(float));
  plan.pack = pack;
  plan.layout_count = 0;
  plan.workspace_bytes = bytes_of(image_floats(g) * s->slices[0], sizeof(float));
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
