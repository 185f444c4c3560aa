// 2-D convolution on NHWC images with groups on CUDA, and its gradients, f32, half and quantized (op.h, kConv2d…), as
// implicit products: a tile gathers the pixels that it needs.
#include "kernels/cuda/product.h"

namespace mlx::kernels::cuda {

// Where tap k of the window at output m = (n·oh + h)·ow + w lies in x, for the first channel of a group; -1 in the
// padding. k = (kh·KW + kw)·per_group + c.
__device__ inline std::int64_t tap(const Geometry& g, std::int64_t group, std::int64_t m, std::int64_t k) {
  const std::int64_t per_group = g.c / g.groups, c = k % per_group, at = k / per_group;
  const std::int64_t ih = m / g.ow % g.oh * g.sh - g.pt + at / g.kw, iw = m % g.ow * g.sw - g.pl + at % g.kw;
  if (ih < 0 || ih >= g.h || iw < 0 || iw >= g.w) return -1;
  return ((m / g.ow / g.oh * g.h + ih) * g.w + iw) * g.c + group * per_group + c;
}

static ProductSize forward_size(const Geometry& g) {
  return {g.n * g.oh * g.ow, g.o / g.groups, g.kh * g.kw * (g.c / g.groups), g.groups};
}

void run_conv(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const Geometry g = s.g;
  const ProductSize size = forward_size(g);
  const Epilogue epilogue = epilogue_of(s, args);
  const std::int64_t outputs = g.o / g.groups, taps = size.k;
  if (g.quantized) {
    const Bytes x{args.inputs[0], g.x_type == DType::kS8};
    const auto* w = static_cast<const std::int8_t*>(args.inputs[1]);
    return product<int>(
        args, size,
        [=] __device__(std::int64_t group, std::int64_t m, std::int64_t k) -> int {
          const std::int64_t at = tap(g, group, m, k);
          return at < 0 ? 0 : x[at];
        },
        [=] __device__(std::int64_t group, std::int64_t k, std::int64_t o) -> int {
          return w[(group * outputs + o) * taps + k];
        },
        [=] __device__(std::int64_t group, std::int64_t, std::int64_t m, std::int64_t o, int sum) {
          epilogue.store(m * g.o + group * outputs + o, group * outputs + o, sum);
        });
  }
  const Reals x = reals_in(s, args, 0, g.x_type);
  const Weights w = weights_in(s, args);
  product<float>(
      args, size,
      [=] __device__(std::int64_t group, std::int64_t m, std::int64_t k) -> float {
        const std::int64_t at = tap(g, group, m, k);
        return at < 0 ? 0.0f : x[at];
      },
      [=] __device__(std::int64_t group, std::int64_t k, std::int64_t o) -> float {
        return w[(group * outputs + o) * taps + k];
      },
      [=] __device__(std::int64_t group, std::int64_t, std::int64_t m, std::int64_t o, float sum) {
        epilogue.store(m * g.o + group * outputs + o, group * outputs + o, sum);
      });
}

// dx[m, c] = sum over k = (kh·KW + kw)·outputs + o of dy at the window that has pixel m under its tap (kh, kw).
void run_conv_backward_data(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const Geometry g = s.g;
  const Reals dy = reals_in(s, args, 0, g.x_type);
  const Weights w = weights_in(s, args);
  const RealsOut dx = reals_out(s, args, 0, g.y_type);
  const std::int64_t outputs = g.o / g.groups, per_group = g.c / g.groups;
  product<float>(
      args, ProductSize{g.n * g.h * g.w, per_group, g.kh * g.kw * outputs, g.groups},
      [=] __device__(std::int64_t group, std::int64_t m, std::int64_t k) -> float {
        const std::int64_t at = k / outputs;
        const std::int64_t h = m / g.w % g.h + g.pt - at / g.kw, w_at = m % g.w + g.pl - at % g.kw;
        if (h < 0 || w_at < 0 || h % g.sh != 0 || w_at % g.sw != 0) return 0.0f;
        const std::int64_t oh = h / g.sh, ow = w_at / g.sw;
        if (oh >= g.oh || ow >= g.ow) return 0.0f;
        return dy[((m / g.w / g.h * g.oh + oh) * g.ow + ow) * g.o + group * outputs + k % outputs];
      },
      [=] __device__(std::int64_t group, std::int64_t k, std::int64_t c) -> float {
        const std::int64_t at = k / outputs, o = group * outputs + k % outputs;
        return w[(o * g.kh * g.kw + at) * per_group + c];
      },
      [=] __device__(std::int64_t group, std::int64_t, std::int64_t m, std::int64_t c, float sum) {
        dx.store(m * g.c + group * per_group + c, sum);
      });
}

static ProductSize weights_size(const Geometry& g) {
  ProductSize size{g.o / g.groups, g.kh * g.kw * (g.c / g.groups), g.n * g.oh * g.ow, g.groups};
  size.parts = parts_of_k(size);
  return size;
}

void run_conv_backward_weights(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const Geometry g = s.g;
  const Reals x = reals_in(s, args, 0, g.x_type), dy = reals_in(s, args, 1, g.x_type);
  float *dw = f32_out(&s, args, 0), *db = f32_out(&s, args, 1);
  const std::int64_t outputs = g.o / g.groups;
  product_in_parts(
      args, weights_size(g),
      [=] __device__(std::int64_t group, std::int64_t o, std::int64_t m) -> float {
        return dy[m * g.o + group * outputs + o];
      },
      [=] __device__(std::int64_t group, std::int64_t m, std::int64_t k) -> float {
        const std::int64_t at = tap(g, group, m, k);
        return at < 0 ? 0.0f : x[at];
      },
      static_cast<float*>(args.workspace), dw);
  if (db) bias_gradient(args, g.n * g.oh * g.ow, g.o, dy, static_cast<Pair*>(args.workspace), db);
}

bool prepare_conv(const Problem& problem, Plan& plan) {
  const Run run = problem.op == Op::kConv2d               ? run_conv
                  : problem.op == Op::kConv2dBackwardData ? run_conv_backward_data
                                                          : run_conv_backward_weights;
  const State* s = new_state(problem, plan, run, Takes::kHalf);
  if (!s) return false;
  if (problem.op == Op::kConv2dBackwardWeights) {
    const std::int64_t outputs = s->g.n * s->g.oh * s->g.ow;
    plan.workspace_bytes = std::max(product_bytes(weights_size(s->g)), column_bytes(outputs, s->g.o));
  }
  return true;
}

}  // namespace mlx::kernels::cuda
