// 2-D convolution on NHWC images with groups on CUDA, and its gradients, f32, half and quantized (op_list.h, kConv2d…).
// They are implicit products: a tile gathers the pixels that it needs.
#include "kernels/cuda/index.h"
#include "kernels/cuda/product.h"

namespace mlx::kernels::cuda {

static ProductSize forward_size(const Geometry& g) {
  return {g.n * g.oh * g.ow, g.o / g.groups, g.kh * g.kw * (g.c / g.groups), g.groups};
}

void run_conv(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const Geometry g = s.g;
  const ProductSize size = forward_size(g);
  const Epilogue epilogue = epilogue_of(s, args);
  const std::int64_t outputs = g.o / g.groups, taps = size.k;
  const InputIndex input_at(g);
  if (g.quantized) {
    const Bytes x{args.inputs[0], g.x_type == DType::kS8};
    const auto* w = static_cast<const std::int8_t*>(args.inputs[1]);
    return product<int>(
        args, size,
        [=] __device__(std::int64_t group, std::int64_t m, std::int64_t k) -> int {
          const std::int64_t at = input_at(group, m, k);
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
        const std::int64_t at = input_at(group, m, k);
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
  const OutputIndex output_at(g);
  product<float>(
      args, ProductSize{g.n * g.h * g.w, per_group, g.kh * g.kw * outputs, g.groups},
      [=] __device__(std::int64_t group, std::int64_t m, std::int64_t k) -> float {
        const std::int64_t at = output_at(group, m, k);
        return at < 0 ? 0.0f : dy[at];
      },
      [=] __device__(std::int64_t group, std::int64_t k, std::int64_t c) -> float {
        return w[output_at.weight(group, k, c)];
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
  const InputIndex input_at(g);
  product_in_parts(
      args, weights_size(g),
      [=] __device__(std::int64_t group, std::int64_t o, std::int64_t m) -> float {
        return dy[m * g.o + group * outputs + o];
      },
      [=] __device__(std::int64_t group, std::int64_t m, std::int64_t k) -> float {
        const std::int64_t at = input_at(group, m, k);
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
  if (!s || !counts_by_int(s->g)) return false;
  if (problem.op == Op::kConv2dBackwardWeights) {
    const std::int64_t outputs = s->g.n * s->g.oh * s->g.ow;
    plan.workspace_bytes = std::max(product_bytes(weights_size(s->g)), column_bytes(outputs, s->g.o));
  }
  return true;
}

}  // namespace mlx::kernels::cuda
