// Max pooling and global average pooling on CUDA with their gradients (op_list.h, kMaxPool…), one thread per element.
#include "kernels/cuda/cuda.h"

namespace mlx::kernels::cuda {

// The coordinates of element i of images [n, h, w, c].
struct Pixel {
  std::int64_t n, h, w, c;
};
__device__ inline Pixel pixel_of(std::int64_t i, std::int64_t height, std::int64_t width, std::int64_t channels) {
  const std::int64_t c = i % channels, at = i / channels;
  return {at / width / height, at / width % height, at % width, c};
}

// The first largest element wins; NaN wins over numbers. A window entirely in the padding gives 0 and index -1.
template <typename In, typename Out>
void max_pool(const State& s, const Args& args, In x, Out y) {
  const Geometry g = s.g;
  std::int32_t* index = s32_out(&s, args, 1);
  each(args, g.n * g.oh * g.ow * g.c, [=] __device__(std::int64_t i) {
    const Pixel out = pixel_of(i, g.oh, g.ow, g.c);
    const std::int64_t top = out.h * g.sh - g.pt, left = out.w * g.sw - g.pl;
    float best = 0.0f;
    std::int64_t where = -1;
    for (std::int64_t ih = top < 0 ? 0 : top; ih < top + g.kh && ih < g.h; ++ih)
      for (std::int64_t iw = left < 0 ? 0 : left; iw < left + g.kw && iw < g.w; ++iw) {
        const auto value = static_cast<float>(x[((out.n * g.h + ih) * g.w + iw) * g.c + out.c]);
        if (where >= 0 && !(value > best) && value == value) continue;
        best = value;
        where = ih * g.w + iw;
      }
    y.store(i, best);
    if (index) index[i] = static_cast<std::int32_t>(where);
  });
}

void run_max_pool(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  if (s.g.x_type == DType::kU8 || s.g.x_type == DType::kS8) {
    const bool is_signed = s.g.x_type == DType::kS8;
    return max_pool(s, args, Bytes{args.inputs[0], is_signed}, BytesOut{args.outputs[0], is_signed});
  }
  max_pool(s, args, reals_in(s, args, 0, s.g.x_type), reals_out(s, args, 0, s.g.y_type));
}

// dx of one element: the sum over the windows that chose it, in order.
void run_max_pool_backward(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const Geometry g = s.g;
  const Reals dy = reals_in(s, args, 0, g.x_type);
  const std::int32_t* index = s32_in(&s, args, 1);
  const RealsOut dx = reals_out(s, args, 0, g.y_type);
  each(args, g.n * g.h * g.w * g.c, [=] __device__(std::int64_t i) {
    const Pixel in = pixel_of(i, g.h, g.w, g.c);
    const std::int64_t h = in.h + g.pt, w = in.w + g.pl;  // relative to the padding's corner
    const std::int64_t first_h = h < g.kh ? 0 : (h - g.kh) / g.sh + 1, first_w = w < g.kw ? 0 : (w - g.kw) / g.sw + 1;
    float sum = 0.0f;
    for (std::int64_t oh = first_h; oh < g.oh && oh * g.sh <= h; ++oh)
      for (std::int64_t ow = first_w; ow < g.ow && ow * g.sw <= w; ++ow) {
        const std::int64_t out = ((in.n * g.oh + oh) * g.ow + ow) * g.c + in.c;
        if (index[out] == in.h * g.w + in.w) sum += dy[out];
      }
    dx.store(i, sum);
  });
}

void run_avg_pool(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const std::int64_t pixels = s.g.h * s.g.w, channels = s.g.c;
  const bool quantized = s.g.quantized;
  const float* x = static_cast<const float*>(args.inputs[0]);
  const Bytes bytes{args.inputs[0], s.g.x_type == DType::kS8};
  float* y = f32_out(&s, args, 0);
  const float scale = s.attrs.scale_x, n = static_cast<float>(pixels);
  each(args, s.g.n * channels, [=] __device__(std::int64_t i) {
    const std::int64_t first = i / channels * pixels * channels + i % channels;
    float sum = 0.0f;
    for (std::int64_t at = first; at < first + pixels * channels; at += channels)
      sum += quantized ? scale * static_cast<float>(bytes[at]) : x[at];
    y[i] = sum / n;
  });
}

void run_avg_pool_backward(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const std::int64_t pixels = s.g.h * s.g.w, channels = s.g.c;
  const float* dy = f32_in(&s, args, 0);
  float* dx = f32_out(&s, args, 0);
  const float n = static_cast<float>(pixels);
  each(args, s.g.n * pixels * channels,
       [=] __device__(std::int64_t i) { dx[i] = dy[i / (pixels * channels) * channels + i % channels] / n; });
}

bool prepare_pool(const Problem& problem, Plan& plan) {
  const Run run = problem.op == Op::kMaxPool           ? run_max_pool
                  : problem.op == Op::kMaxPoolBackward ? run_max_pool_backward
                  : problem.op == Op::kAvgPool         ? run_avg_pool
                                                       : run_avg_pool_backward;
  return new_state(problem, plan, run, Takes::kHalf) != nullptr;
}

}  // namespace mlx::kernels::cuda
