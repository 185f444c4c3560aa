// Reference 2-D convolution on NHWC images with groups, and its gradients, f32, tf32, half and quantized (op_list.h,
// kConv2d…).
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

// Calls body(x_offset, w_offset) for every tap of output channel `o` at (n, oh, ow) that is inside the image, in the
// order of kernel rows, columns and channels.
template <typename Body>
void for_taps(const Geometry& g, std::int64_t n, std::int64_t oh, std::int64_t ow, std::int64_t o, Body body) {
  const std::int64_t per_group = g.c / g.groups, first = o / (g.o / g.groups) * per_group;
  for (std::int64_t kh = 0; kh < g.kh; ++kh) {
    const std::int64_t ih = oh * g.sh - g.pt + kh;
    if (ih < 0 || ih >= g.h) continue;
    for (std::int64_t kw = 0; kw < g.kw; ++kw) {
      const std::int64_t iw = ow * g.sw - g.pl + kw;
      if (iw < 0 || iw >= g.w) continue;
      const std::int64_t x = ((n * g.h + ih) * g.w + iw) * g.c + first;
      const std::int64_t w = ((o * g.kh + kh) * g.kw + kw) * per_group;
      for (std::int64_t c = 0; c < per_group; ++c) body(x + c, w + c);
    }
  }
}

// Calls body(n, oh, ow, o, y_offset) for every output of a slice of images.
template <typename Body>
void for_outputs(const State& s, Range images, Body body) {
  const Geometry& g = s.g;
  for (std::int64_t n = images.begin; n < images.end; ++n)
    for (std::int64_t oh = 0; oh < g.oh; ++oh)
      for (std::int64_t ow = 0; ow < g.ow; ++ow)
        for (std::int64_t o = 0; o < g.o; ++o) body(n, oh, ow, o, ((n * g.oh + oh) * g.ow + ow) * g.o + o);
}

template <typename T>
void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const T* x = reals_in<T>(args, 0);
  const Weights<T> w = weights_in<T>(s, args);
  const float* b = f32_in(&s, args, 2);
  for_outputs(s, range_of(&s, phase, slice), [&](auto n, auto oh, auto ow, auto o, auto out) {
    double sum = b ? b[o] : 0.0;
    for_taps(s.g, n, oh, ow, o, [&](auto xi, auto wi) { sum += double{widen(x[xi])} * w[wi]; });
    store_real(args.outputs[0], s.g.y_type, out, activate(s.attrs.activation, sum));
  });
}

void forward_quantized(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const auto* w = static_cast<const std::int8_t*>(args.inputs[1]);
  const float *b = f32_in(&s, args, 2), *w_scales = f32_in(&s, args, 3);
  for_outputs(s, range_of(&s, phase, slice), [&](auto n, auto oh, auto ow, auto o, auto out) {
    std::int64_t sum = 0;
    for_taps(s.g, n, oh, ow, o,
             [&](auto xi, auto wi) { sum += load_quantized(args.inputs[0], s.g.x_type, xi) * w[wi]; });
    const double real = static_cast<double>(sum) * s.attrs.scale_x * w_scales[o] + (b ? b[o] : 0.0);
    const double value = activate(s.attrs.activation, real);
    if (s.g.y_type == DType::kF32)
      f32_out(&s, args, 0)[out] = static_cast<float>(value);
    else
      store_quantized(args.outputs[0], s.g.y_type, out, value / s.attrs.scale_y);
  });
}

// Scatters each image's gradients into a plane of doubles in the workspace, one plane per slice.
template <typename T>
void backward_data(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const T* dy = reals_in<T>(args, 0);
  const Weights<T> w = weights_in<T>(s, args);
  const std::int64_t plane = s.g.h * s.g.w * s.g.c;
  double* sums = static_cast<double*>(args.workspace) + plane * slice;
  const Range images = range_of(&s, phase, slice);
  for (std::int64_t image = images.begin; image < images.end; ++image) {
    for (std::int64_t i = 0; i < plane; ++i) sums[i] = 0.0;
    for_outputs(s, {image, image + 1}, [&](auto n, auto oh, auto ow, auto o, auto out) {
      const double d = widen(dy[out]);
      for_taps(s.g, n, oh, ow, o, [&](auto xi, auto wi) { sums[xi - n * plane] += d * w[wi]; });
    });
    for (std::int64_t i = 0; i < plane; ++i) store_real(args.outputs[0], s.g.y_type, image * plane + i, sums[i]);
  }
}

// Sliced by output channel; the workspace holds the sums of all channels.
template <typename T>
void backward_weights(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const Geometry& g = s.g;
  const T *x = reals_in<T>(args, 0), *dy = reals_in<T>(args, 1);
  float *dw = f32_out(&s, args, 0), *db = f32_out(&s, args, 1);
  auto* sums = static_cast<double*>(args.workspace);
  const std::int64_t taps = g.kh * g.kw * (g.c / g.groups);
  const Range channels = range_of(&s, phase, slice);
  for (std::int64_t o = channels.begin; o < channels.end; ++o) {
    for (std::int64_t i = o * taps; i < (o + 1) * taps; ++i) sums[i] = 0.0;
    double bias = 0.0;
    for (std::int64_t n = 0; n < g.n; ++n)
      for (std::int64_t oh = 0; oh < g.oh; ++oh)
        for (std::int64_t ow = 0; ow < g.ow; ++ow) {
          const std::int64_t at = ((n * g.oh + oh) * g.ow + ow) * g.o + o;
          const double d = widen(dy[at]);
          for_taps(g, n, oh, ow, o, [&](auto xi, auto wi) { sums[wi] += d * widen(x[xi]); });
          bias += load_real(args.inputs[1], g.x_type, at);
        }
    for (std::int64_t i = o * taps; i < (o + 1) * taps; ++i) dw[i] = static_cast<float>(sums[i]);
    if (db) db[o] = static_cast<float>(bias);
  }
}

}  // namespace

bool prepare_conv(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, forward_quantized, Takes::kHalf);
  if (!s) return false;
  const Geometry& g = s->g;
  const bool weights = problem.op == Op::kConv2dBackwardWeights;
  if (!g.quantized) {
    plan.run = by_factor(*s, [&](auto as) -> Run {
      using T = decltype(as);
      if (weights) return backward_weights<T>;
      return problem.op == Op::kConv2d ? forward<T> : backward_data<T>;
    });
  }
  const std::int64_t work = g.n * g.oh * g.ow * g.o * g.kh * g.kw * (g.c / g.groups);
  cut(s, plan, 0, weights ? g.o : g.n, work);
  if (weights)
    plan.workspace_bytes = sizeof(double) * static_cast<std::size_t>(g.o * g.kh * g.kw * (g.c / g.groups));
  else if (problem.op == Op::kConv2dBackwardData)
    plan.workspace_bytes = sizeof(double) * static_cast<std::size_t>(g.h * g.w * g.c * plan.slices[0]);
  return true;
}

}  // namespace mlx::kernels::ref
