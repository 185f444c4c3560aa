// Max pooling, channels in the lanes: f32 and bf16 with the index that backward needs, u8 and s8 without; and its
// gradient.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// The part of a window that lies inside the image.
struct Window {
  std::int64_t top, bottom, left, right;
};
inline Window window_of(const Geometry& g, std::int64_t oh, std::int64_t ow) {
  const std::int64_t top = oh * g.sh - g.pt, left = ow * g.sw - g.pl;
  const std::int64_t bottom = top + g.kh, right = left + g.kw;
  return {top < 0 ? 0 : top, bottom > g.h ? g.h : bottom, left < 0 ? 0 : left, right > g.w ? g.w : right};
}

// The first largest wins, NaN over numbers; an empty window gives 0 and index -1. X and Y: float or BF16.
template <typename X, typename Y>
void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  const Range images = range_of(s, phase, slice);
  std::int32_t* indices = s32_out(s, args, 1);
  for (std::int64_t n = images.begin; n < images.end; ++n) {
    const X* x = static_cast<const X*>(args.inputs[0]) + n * g.h * g.w * g.c;
    for (std::int64_t oh = 0; oh < g.oh; ++oh)
      for (std::int64_t ow = 0; ow < g.ow; ++ow) {
        const Window window = window_of(g, oh, ow);
        const std::int64_t out = ((n * g.oh + oh) * g.ow + ow) * g.c;
        by_vectors(0, g.c, [&](std::int64_t c, auto mask) {
          Floats best = zeros();
          Ints index = integers(-1);
          for (std::int64_t ih = window.top; ih < window.bottom; ++ih)
            for (std::int64_t iw = window.left; iw < window.right; ++iw) {
              const std::int64_t at = ih * g.w + iw;
              const Floats value = load(x + at * g.c + c, mask);
              const Mask better = negative(index) | (value > best) | ~ordered(value);  // index -1: the first
              best = select(better, value, best);
              index = select(better, integers(static_cast<int>(at)), index);
            }
          store(static_cast<Y*>(args.outputs[0]) + out + c, best, mask);
          if (indices) store(indices + out + c, index, mask);
        });
      }
  }
}

template <bool Signed>
void forward_bytes(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  const Range images = range_of(s, phase, slice);
  for (std::int64_t n = images.begin; n < images.end; ++n) {
    const auto* x = static_cast<const std::uint8_t*>(args.inputs[0]) + n * g.h * g.w * g.c;
    for (std::int64_t oh = 0; oh < g.oh; ++oh)
      for (std::int64_t ow = 0; ow < g.ow; ++ow) {
        const Window window = window_of(g, oh, ow);
        const bool empty = window.top >= window.bottom || window.left >= window.right;
        std::uint8_t* y = static_cast<std::uint8_t*>(args.outputs[0]) + ((n * g.oh + oh) * g.ow + ow) * g.c;
        for (std::int64_t c = 0; c < g.c; c += 64) {
          Bytes best = broadcast_bytes(Signed && !empty ? -128 : 0);
          for (std::int64_t ih = window.top; ih < window.bottom; ++ih)
            for (std::int64_t iw = window.left; iw < window.right; ++iw)
              best = larger_bytes<Signed>(best, load_bytes(x + (ih * g.w + iw) * g.c + c, g.c - c));
          store_bytes(y + c, best, g.c - c);
        }
      }
  }
}

void clear(float* at, std::int64_t count) {
  by_vectors(0, count, [&](std::int64_t i, auto mask) { store(at + i, zeros(), mask); });
}

// Windows side by side without padding: every element of dx is written once.
void backward_tiles(const State* s, const float* dy, const std::int32_t* index, float* dx) {
  const Geometry& g = s->g;
  const std::int64_t covered_h = g.oh * g.kh, covered_w = g.ow * g.kw;
  for (std::int64_t oh = 0; oh < g.oh; ++oh)
    for (std::int64_t ow = 0; ow < g.ow; ++ow)
      by_vectors(0, g.c, [&](std::int64_t c, auto mask) {
        const std::int64_t out = (oh * g.ow + ow) * g.c + c;
        const Floats gradient = load(dy + out, mask);
        const Ints chosen = load(index + out, mask);
        for (std::int64_t ih = oh * g.kh; ih < (oh + 1) * g.kh; ++ih)
          for (std::int64_t iw = ow * g.kw; iw < (ow + 1) * g.kw; ++iw) {
            const std::int64_t at = ih * g.w + iw;
            const Mask hit = chosen == integers(static_cast<int>(at));
            store(dx + at * g.c + c, keep(hit, gradient), mask);
          }
      });
  for (std::int64_t ih = 0; ih < covered_h; ++ih) clear(dx + (ih * g.w + covered_w) * g.c, (g.w - covered_w) * g.c);
  clear(dx + covered_h * g.w * g.c, (g.h - covered_h) * g.w * g.c);
}

// Any windows: gradients are added in the order of the windows.
void backward_windows(const State* s, const float* dy, const std::int32_t* index, float* dx) {
  const Geometry& g = s->g;
  clear(dx, g.h * g.w * g.c);
  for (std::int64_t oh = 0; oh < g.oh; ++oh)
    for (std::int64_t ow = 0; ow < g.ow; ++ow) {
      const Window window = window_of(g, oh, ow);
      by_vectors(0, g.c, [&](std::int64_t c, auto mask) {
        const std::int64_t out = (oh * g.ow + ow) * g.c + c;
        const Floats gradient = load(dy + out, mask);
        const Ints chosen = load(index + out, mask);
        for (std::int64_t ih = window.top; ih < window.bottom; ++ih)
          for (std::int64_t iw = window.left; iw < window.right; ++iw) {
            const std::int64_t at = ih * g.w + iw;
            const Mask hit = mask & (chosen == integers(static_cast<int>(at)));
            float* place = dx + at * g.c + c;
            store(place, load(place, hit) + gradient, hit);
          }
      });
    }
}

void backward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  const bool tiles = g.kh == g.sh && g.kw == g.sw && g.pt == 0 && g.pl == 0 && g.oh * g.kh <= g.h && g.ow * g.kw <= g.w;
  const Range images = range_of(s, phase, slice);
  for (std::int64_t n = images.begin; n < images.end; ++n) {
    const std::int64_t out = n * g.oh * g.ow * g.c;
    const float* dy = f32_in(s, args, 0) + out;
    const std::int32_t* index = s32_in(s, args, 1) + out;
    float* dx = f32_out(s, args, 0) + n * g.h * g.w * g.c;
    if (tiles)
      backward_tiles(s, dy, index, dx);
    else
      backward_windows(s, dy, index, dx);
  }
}

template <typename X>
Run forward_of(DType y) {
  return y == DType::kBF16 ? forward<X, BF16> : forward<X, float>;
}

Run forward_of(const Geometry& g) {
  switch (g.x_type) {
    case DType::kU8:
      return forward_bytes<false>;
    case DType::kS8:
      return forward_bytes<true>;
    case DType::kBF16:
      return forward_of<BF16>(g.y_type);
    default:
      return forward_of<float>(g.y_type);
  }
}

}  // namespace

bool prepare_max_pool(const Problem& problem, Plan& plan) {
  const bool forward = problem.op == Op::kMaxPool;
  State* s = new_state(problem, plan, backward, Takes::kBF16);
  if (!s) return false;
  const bool bytes = s->g.x_type == DType::kU8 || s->g.x_type == DType::kS8;
  if (forward && bytes && s->g.has_output[1]) return false;  // only training wants the index, and trains real numbers
  if (forward) plan.run = forward_of(s->g);
  cut(s, plan, 0, s->g.n, s->g.n * s->g.h * s->g.w * s->g.c * static_cast<std::int64_t>(size_of(s->g.x_type)));
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
