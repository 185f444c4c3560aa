// Max pooling with channels in the lanes: f32 and bf16 with the index that backward needs, u8 and s8 without; and its
// gradient.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// The part of a window that is inside the image.
struct Window {
  std::int64_t top, bottom, left, right;
};
inline Window window_of(const Geometry& g, std::int64_t oh, std::int64_t ow) {
  const std::int64_t top = oh * g.sh - g.pt, left = ow * g.sw - g.pl;
  const std::int64_t bottom = top + g.kh, right = left + g.kw;
  return {top < 0 ? 0 : top, bottom > g.h ? g.h : bottom, left < 0 ? 0 : left, right > g.w ? g.w : right};
}

// The first largest element wins, and NaN over numbers. An empty window gives 0 and index -1. X and Y: float or BF16.
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

// The windows that contain row or column i of the image.
struct Windows {
  std::int64_t begin, end;
};
inline Windows windows_over(std::int64_t i, std::int64_t pad, std::int64_t kernel, std::int64_t stride,
                            std::int64_t count) {
  const std::int64_t end = (i + pad) / stride + 1, before = i + pad - kernel;
  return {before < 0 ? 0 : before / stride + 1, end < count ? end : count};
}

// Writes every element of dx once: the sum of the gradients of the windows that chose it, in their order. D and X: the
// storage types of dy and dx, float or BF16.
template <typename D, typename X>
void backward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  const Range images = range_of(s, phase, slice);
  for (std::int64_t row = images.begin * g.h; row < images.end * g.h; ++row) {
    const std::int64_t n = row / g.h, ih = row % g.h;
    const D* dy = static_cast<const D*>(args.inputs[0]) + n * g.oh * g.ow * g.c;
    const std::int32_t* index = s32_in(s, args, 1) + n * g.oh * g.ow * g.c;
    const Windows high = windows_over(ih, g.pt, g.kh, g.sh, g.oh);
    for (std::int64_t iw = 0; iw < g.w; ++iw) {
      const Windows wide = windows_over(iw, g.pl, g.kw, g.sw, g.ow);
      const Ints here = integers(static_cast<int>(ih * g.w + iw));
      X* dx = static_cast<X*>(args.outputs[0]) + (row * g.w + iw) * g.c;
      by_vectors(0, g.c, [&](std::int64_t c, auto mask) {
        Floats sum = zeros();
        for (std::int64_t oh = high.begin; oh < high.end; ++oh)
          for (std::int64_t ow = wide.begin; ow < wide.end; ++ow) {
            const std::int64_t out = (oh * g.ow + ow) * g.c + c;
            sum = sum + keep(load(index + out, mask) == here, load(dy + out, mask));
          }
        store(dx + c, sum, mask);
      });
    }
  }
}

Run backward_of(const Geometry& g) {
  return stored_as(g.x_type, [&](auto dy) {
    return stored_as(g.y_type, [&](auto dx) { return backward<decltype(dy), decltype(dx)>; });
  });
}

Run forward_of(const Geometry& g) {
  switch (g.x_type) {
    case DType::kU8:
      return forward_bytes<false>;
    case DType::kS8:
      return forward_bytes<true>;
    default:
      return stored_as(g.x_type, [&](auto x) {
        return stored_as(g.y_type, [&](auto y) { return forward<decltype(x), decltype(y)>; });
      });
  }
}

}  // namespace

bool prepare_max_pool(const Problem& problem, Plan& plan) {
  const bool forward = problem.op == Op::kMaxPool;
  State* s = new_state(problem, plan, nullptr, Takes::kBF16);
  if (!s) return false;
  const bool bytes = s->g.x_type == DType::kU8 || s->g.x_type == DType::kS8;
  if (forward && bytes && s->g.has_output[1]) return false;  // only training on real numbers needs the index
  plan.run = forward ? forward_of(s->g) : backward_of(s->g);
  cut(s, plan, 0, s->g.n, s->g.n * s->g.h * s->g.w * s->g.c * static_cast<std::int64_t>(size_of(s->g.x_type)));
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
