// AVX-512 max pooling, channels in the lanes: f32 with the index that backward needs, u8 and s8 without; and its
// gradient.
#include "kernels/avx512/lanes.h"

namespace mlx::kernels::avx512 {
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

// The first largest wins, NaN over numbers; an empty window gives 0 and index -1.
void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Geometry& g = s->g;
  const Range images = range_of(s, phase, slice);
  std::int32_t* indices = s32_out(s, args, 1);
  for (std::int64_t n = images.begin; n < images.end; ++n) {
    const float* x = f32_in(s, args, 0) + n * g.h * g.w * g.c;
    for (std::int64_t oh = 0; oh < g.oh; ++oh)
      for (std::int64_t ow = 0; ow < g.ow; ++ow) {
        const Window window = window_of(g, oh, ow);
        const std::int64_t out = ((n * g.oh + oh) * g.ow + ow) * g.c;
        for (std::int64_t c = 0; c < g.c; c += 16) {
          const __mmask16 mask = lanes(g.c - c);
          __m512 best = _mm512_setzero_ps();
          __m512i index = _mm512_set1_epi32(-1);
          for (std::int64_t ih = window.top; ih < window.bottom; ++ih)
            for (std::int64_t iw = window.left; iw < window.right; ++iw) {
              const std::int64_t at = ih * g.w + iw;
              const __m512 value = _mm512_maskz_loadu_ps(mask, x + at * g.c + c);
              const __mmask16 first = _mm512_movepi32_mask(index);  // index still -1
              const __mmask16 better =
                  first | _mm512_cmp_ps_mask(value, best, _CMP_GT_OQ) | _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
              best = _mm512_mask_mov_ps(best, better, value);
              index = _mm512_mask_mov_epi32(index, better, _mm512_set1_epi32(static_cast<int>(at)));
            }
          _mm512_mask_storeu_ps(f32_out(s, args, 0) + out + c, mask, best);
          if (indices) _mm512_mask_storeu_epi32(indices + out + c, mask, index);
        }
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
          const __mmask64 mask = g.c - c >= 64 ? ~__mmask64{0} : (__mmask64{1} << (g.c - c)) - 1;
          __m512i best = _mm512_set1_epi8(Signed && !empty ? -128 : 0);
          for (std::int64_t ih = window.top; ih < window.bottom; ++ih)
            for (std::int64_t iw = window.left; iw < window.right; ++iw) {
              const __m512i value = _mm512_maskz_loadu_epi8(mask, x + (ih * g.w + iw) * g.c + c);
              best = Signed ? _mm512_max_epi8(best, value) : _mm512_max_epu8(best, value);
            }
          _mm512_mask_storeu_epi8(y + c, mask, best);
        }
      }
  }
}

void clear(float* at, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += 16) _mm512_mask_storeu_ps(at + i, lanes(count - i), _mm512_setzero_ps());
}

// Windows side by side without padding: every element of dx is written once.
void backward_tiles(const State* s, const float* dy, const std::int32_t* index, float* dx) {
  const Geometry& g = s->g;
  const std::int64_t covered_h = g.oh * g.kh, covered_w = g.ow * g.kw;
  for (std::int64_t oh = 0; oh < g.oh; ++oh)
    for (std::int64_t ow = 0; ow < g.ow; ++ow)
      for (std::int64_t c = 0; c < g.c; c += 16) {
        const __mmask16 mask = lanes(g.c - c);
        const std::int64_t out = (oh * g.ow + ow) * g.c + c;
        const __m512 gradient = _mm512_maskz_loadu_ps(mask, dy + out);
        const __m512i chosen = _mm512_maskz_loadu_epi32(mask, index + out);
        for (std::int64_t ih = oh * g.kh; ih < (oh + 1) * g.kh; ++ih)
          for (std::int64_t iw = ow * g.kw; iw < (ow + 1) * g.kw; ++iw) {
            const std::int64_t at = ih * g.w + iw;
            const __mmask16 hit = _mm512_cmpeq_epi32_mask(chosen, _mm512_set1_epi32(static_cast<int>(at)));
            _mm512_mask_storeu_ps(dx + at * g.c + c, mask, _mm512_maskz_mov_ps(hit, gradient));
          }
      }
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
      for (std::int64_t c = 0; c < g.c; c += 16) {
        const __mmask16 mask = lanes(g.c - c);
        const std::int64_t out = (oh * g.ow + ow) * g.c + c;
        const __m512 gradient = _mm512_maskz_loadu_ps(mask, dy + out);
        const __m512i chosen = _mm512_maskz_loadu_epi32(mask, index + out);
        for (std::int64_t ih = window.top; ih < window.bottom; ++ih)
          for (std::int64_t iw = window.left; iw < window.right; ++iw) {
            const std::int64_t at = ih * g.w + iw;
            const __mmask16 hit = _mm512_mask_cmpeq_epi32_mask(mask, chosen, _mm512_set1_epi32(static_cast<int>(at)));
            float* place = dx + at * g.c + c;
            _mm512_mask_storeu_ps(place, hit, _mm512_add_ps(_mm512_maskz_loadu_ps(hit, place), gradient));
          }
      }
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

}  // namespace

bool prepare_max_pool(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, problem.op == Op::kMaxPool ? forward : backward);
  if (!s) return false;
  if (problem.op == Op::kMaxPool && s->g.x_type != DType::kF32) {
    if (s->g.has_output[1]) return false;  // only training wants the index, and training is f32
    plan.run = s->g.x_type == DType::kU8 ? forward_bytes<false> : forward_bytes<true>;
  }
  cut(s, plan, 0, s->g.n, s->g.n * s->g.h * s->g.w * s->g.c * static_cast<std::int64_t>(size_of(s->g.x_type)));
  return true;
}

}  // namespace mlx::kernels::avx512
