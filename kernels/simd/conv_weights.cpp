// Gradient to the weights (and bias) of a convolution with any number of channels and one group, f32. For each tap it
// sums outer products of pixels of x and of dy (product.h), pixels in order. Nothing is copied: a tap's windows are
// known.
//
// Large weights are sliced by blocks of 64 x 64 of a tap's channels, each over all images. For small weights each slice
// has its own sums over its images; they are added in slice order.
#include "kernels/simd/product.h"

namespace mlx::kernels::MLX_ISA {
namespace {

constexpr std::int64_t kChannels = 64;      // channels of x and of dy in a block
constexpr std::int64_t kLarge = 64 * 1024;  // larger weights are themselves sliced
constexpr std::int64_t kGroup = 128;        // 64 channels of x and dy of so many pixels stay in the first-level cache

// Block `item`: a tap, 64 channels of x, 64 of dy.
struct Block {
  std::int64_t kh, kw, c, o, high, wide;
};
inline std::int64_t blocks(std::int64_t channels) {
  return (channels + kChannels - 1) / kChannels;
}
inline std::int64_t block_count(const Geometry& g) {
  return g.kh * g.kw * blocks(g.c) * blocks(g.o);
}
inline Block block_of(const Geometry& g, std::int64_t item) {
  const std::int64_t o = item % blocks(g.o) * kChannels, rest = item / blocks(g.o);
  const std::int64_t c = rest % blocks(g.c) * kChannels, tap = rest / blocks(g.c);
  return {tap / g.kw, tap % g.kw, c, o, smaller(kChannels, g.c - c), smaller(kChannels, g.o - o)};
}

// The windows among `count` whose element `tap` is within `size`.
inline Range windows_with(std::int64_t tap, std::int64_t count, std::int64_t size, std::int64_t stride,
                          std::int64_t pad) {
  const std::int64_t begin = pad > tap ? (pad - tap + stride - 1) / stride : 0, last = size - 1 + pad - tap;
  const std::int64_t end = last < 0 ? 0 : smaller(last / stride + 1, count);
  return {begin, end > begin ? end : begin};
}

// sums[c · step + o] = a block's gradient from the rows of y in `rows`, image after image.
void sum_block(const State* s, const Args& args, const Block& b, Range rows, float* sums, std::int64_t step) {
  const Geometry& g = s->g;
  const Range high = windows_with(b.kh, g.oh, g.h, g.sh, g.pt), wide = windows_with(b.kw, g.ow, g.w, g.sw, g.pl);
  for (std::int64_t c = 0; c < b.high; ++c)
    by_vectors(0, b.wide, [&](std::int64_t o, auto mask) { store(sums + c * step + o, zeros(), mask); });
  const std::int64_t count = wide.end - wide.begin;
  if (count <= 0) return;
  // If the windows of a tap are contiguous, rows are joined.
  const bool joined =
      g.kh == 1 && g.kw == 1 && g.sh == 1 && g.sw == 1 && g.pt == 0 && g.pl == 0 && g.oh == g.h && g.ow == g.w;
  const auto add = [&](std::int64_t x, std::int64_t y, std::int64_t pixels) {
    for (std::int64_t i = 0; i < pixels; i += kGroup) {
      const OuterSums<float> m{f32_in(s, args, 0) + (x + i * g.sw) * g.c + b.c,
                               g.sw * g.c,
                               f32_in(s, args, 1) + (y + i) * g.o + b.o,
                               g.o,
                               smaller(kGroup, pixels - i),
                               sums,
                               step};
      add_outer(m, b.high, b.wide);
    }
  };
  if (joined) return add(rows.begin * g.w, rows.begin * g.w, (rows.end - rows.begin) * g.w);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const std::int64_t n = r / g.oh, oh = r % g.oh;
    if (oh < high.begin || oh >= high.end) continue;
    const std::int64_t row = n * g.h + oh * g.sh - g.pt + b.kh;
    add(row * g.w + wide.begin * g.sw - g.pl + b.kw, r * g.ow + wide.begin, count);
  }
}

// Sums db for 64 channels from `o` on.
void sum_bias(const State* s, const Args& args, std::int64_t o, Range rows, float* sums) {
  const Geometry& g = s->g;
  const float* dy = f32_in(s, args, 1) + o;
  by_vectors(0, smaller(kChannels, g.o - o), [&](std::int64_t i, auto mask) {
    Floats sum = zeros();
    for (std::int64_t r = rows.begin * g.ow; r < rows.end * g.ow; ++r) sum = sum + load(dy + r * g.o + i, mask);
    store(sums + i, sum, mask);
  });
}

// Sliced by block. Workspace: the sums of one block per slice.
void by_blocks(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  float *sums = static_cast<float*>(args.workspace) + slice * kChannels * kChannels, *dw = f32_out(s, args, 0);
  const Range items = range_of(s, phase, slice), all{0, g.n * g.oh};
  for (std::int64_t item = items.begin; item < items.end; ++item) {
    const Block b = block_of(g, item);
    sum_block(s, args, b, all, sums, kChannels);
    for (std::int64_t o = 0; o < b.wide; ++o)
      for (std::int64_t c = 0; c < b.high; ++c)
        dw[(((b.o + o) * g.kh + b.kh) * g.kw + b.kw) * g.c + b.c + c] = sums[c * kChannels + o];
    if (g.has_output[1] && b.kh == 0 && b.kw == 0 && b.c == 0) sum_bias(s, args, b.o, all, f32_out(s, args, 1) + b.o);
  }
}

inline std::int64_t taps(const Geometry& g) {
  return g.kh * g.kw * g.c;
}

void add_slices(const State* s, const Args& args, Range channels) {
  const Geometry& g = s->g;
  const std::int64_t count = taps(g), floats = (count + 1) * g.o;
  const auto* all = static_cast<const float*>(args.workspace);
  float *dw = f32_out(s, args, 0), *db = f32_out(s, args, 1);
  for (std::int64_t o = channels.begin; o < channels.end; ++o)
    for (std::int64_t tap = 0; tap <= count; ++tap) {
      double sum = 0.0;
      for (int from = 0; from < s->slices[0]; ++from) sum += all[floats * from + tap * g.o + o];
      if (tap < count)
        dw[o * count + tap] = static_cast<float>(sum);
      else if (db)
        db[o] = static_cast<float>(sum);
    }
}

// Phase 0, by image, computes each slice's sums [taps + 1][channels of dy], the last row for db; phase 1, by channel,
// adds those of all slices in order.
void by_images(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  const Range range = range_of(s, phase, slice);
  if (phase == 1) return add_slices(s, args, range);
  float* own = static_cast<float*>(args.workspace) + slice * (taps(g) + 1) * g.o;
  const Range rows{range.begin * g.oh, range.end * g.oh};
  for (std::int64_t item = 0; item < block_count(g); ++item) {
    const Block b = block_of(g, item);
    sum_block(s, args, b, rows, own + ((b.kh * g.kw + b.kw) * g.c + b.c) * g.o + b.o, g.o);
  }
  for (std::int64_t o = 0; o < g.o; o += kChannels) sum_bias(s, args, o, rows, own + taps(g) * g.o + o);
}

}  // namespace

bool prepare_conv_weights(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, by_images);
  if (!s) return false;
  const Geometry& g = s->g;
  if (g.groups != 1 || g.kh > kMostConvKernel || g.kw > kMostConvKernel) return false;
  const std::int64_t products = g.n * g.oh * g.ow * (taps(g) / 4 + 4) * g.o;
  if (taps(g) * g.o >= kLarge) {
    plan.run = by_blocks;
    cut(s, plan, 0, block_count(g), products);
    plan.workspace_bytes = bytes_of(s->slices[0] * kChannels * kChannels, sizeof(float));
    return true;
  }
  cut(s, plan, 0, g.n, products);
  const std::int64_t sums = (taps(g) + 1) * g.o * s->slices[0];
  cut(s, plan, 1, g.o, sums * 4);
  plan.workspace_bytes = bytes_of(sums, sizeof(float));
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
