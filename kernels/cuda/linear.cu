// Linear layers on CUDA: y = act(x wᵀ + b) and its gradients, f32, half and quantized (op_list.h, kLinear…).
#include "kernels/cuda/product.h"

namespace mlx::kernels::cuda {

void bias_gradient(const Args& args, std::int64_t rows, std::int64_t columns, Reals dy, Pair* parts, float* db) {
  const auto element = [=] __device__(std::int64_t r, std::int64_t c) -> Pair { return {dy[r * columns + c], 0.0f}; };
  sum_columns(args, rows, columns, element, parts);
  const std::int64_t count = row_parts(rows);
  each(args, columns,
       [=] __device__(std::int64_t c) { db[c] = static_cast<float>(column_of(parts, count, columns, c).first); });
}

template <typename Store>
void product_of_reals(const State& s, const Args& args, Store store) {
  const std::int64_t k_count = s.g.in_width;
  const Reals x = reals_in(s, args, 0, s.g.x_type);
  const Weights w = weights_in(s, args);
  product<float>(
      args, ProductSize{s.g.rows, s.g.out_width, k_count},
      [=] __device__(std::int64_t, std::int64_t m, std::int64_t k) -> float { return x[m * k_count + k]; },
      [=] __device__(std::int64_t, std::int64_t k, std::int64_t n) -> float { return w[n * k_count + k]; }, store);
}

void run_linear(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const std::int64_t k_count = s.g.in_width, n_count = s.g.out_width;
  const ProductSize size{s.g.rows, n_count, k_count};
  const Epilogue epilogue = epilogue_of(s, args);
  if (s.g.quantized) {
    const Bytes x{args.inputs[0], s.g.x_type == DType::kS8};
    const auto* w = static_cast<const std::int8_t*>(args.inputs[1]);
    return product<int>(
        args, size, [=] __device__(std::int64_t, std::int64_t m, std::int64_t k) -> int { return x[m * k_count + k]; },
        [=] __device__(std::int64_t, std::int64_t k, std::int64_t n) -> int { return w[n * k_count + k]; },
        [=] __device__(std::int64_t, std::int64_t, std::int64_t m, std::int64_t n, int sum) {
          epilogue.store(m * n_count + n, n, sum);
        });
  }
  if (s.g.has_pre) {
    const GeluBesidePre gelu = gelu_beside_pre_of(s, args);
    return product_of_reals(s, args,
                            [=] __device__(std::int64_t, std::int64_t, std::int64_t m, std::int64_t n, float sum) {
                              gelu.store(m * n_count + n, sum, gelu.bias_of(n));
                            });
  }
  product_of_reals(s, args, [=] __device__(std::int64_t, std::int64_t, std::int64_t m, std::int64_t n, float sum) {
    epilogue.store(m * n_count + n, n, sum);
  });
}

template <typename Store>
void product_of_gradient(const State& s, const Args& args, Store store) {
  const std::int64_t k_count = s.g.in_width, n_count = s.g.out_width;
  const Reals dy = reals_in(s, args, 0, s.g.x_type);
  const Weights w = weights_in(s, args);
  product<float>(
      args, ProductSize{s.g.rows, k_count, n_count},
      [=] __device__(std::int64_t, std::int64_t m, std::int64_t n) -> float { return dy[m * n_count + n]; },
      [=] __device__(std::int64_t, std::int64_t n, std::int64_t k) -> float { return w[n * k_count + k]; }, store);
}

void run_linear_backward_data(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const std::int64_t k_count = s.g.in_width;
  if (s.g.has_pre) {
    const GeluGradient gelu = gelu_gradient_of(s, args);
    return product_of_gradient(s, args,
                               [=] __device__(std::int64_t, std::int64_t, std::int64_t m, std::int64_t k, float sum) {
                                 gelu.store(m * k_count + k, sum, gelu.pre[m * k_count + k]);
                               });
  }
  const RealsOut dx = reals_out(s, args, 0, s.g.y_type);
  product_of_gradient(s, args, [=] __device__(std::int64_t, std::int64_t, std::int64_t m, std::int64_t k, float sum) {
    dx.store(m * k_count + k, sum);
  });
}

static ProductSize weights_size(const Geometry& g) {
  ProductSize size{g.out_width, g.in_width, g.rows};
  size.parts = parts_of_k(size);
  return size;
}

void run_linear_backward_weights(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const std::int64_t k_count = s.g.in_width, n_count = s.g.out_width;
  const Reals x = reals_in(s, args, 0, s.g.x_type), dy = reals_in(s, args, 1, s.g.x_type);
  float *dw = f32_out(&s, args, 0), *db = f32_out(&s, args, 1);
  product_in_parts(
      args, weights_size(s.g),
      [=] __device__(std::int64_t, std::int64_t n, std::int64_t row) -> float { return dy[row * n_count + n]; },
      [=] __device__(std::int64_t, std::int64_t row, std::int64_t k) -> float { return x[row * k_count + k]; },
      static_cast<float*>(args.workspace), dw);
  if (db) bias_gradient(args, s.g.rows, n_count, dy, static_cast<Pair*>(args.workspace), db);
}

bool prepare_linear(const Problem& problem, Plan& plan) {
  const Run run = problem.op == Op::kLinear               ? run_linear
                  : problem.op == Op::kLinearBackwardData ? run_linear_backward_data
                                                          : run_linear_backward_weights;
  const State* s = new_state(problem, plan, run, Takes::kHalf);
  if (!s) return false;
  if (problem.op == Op::kLinearBackwardWeights)
    plan.workspace_bytes = std::max(product_bytes(weights_size(s->g)), column_bytes(s->g.rows, s->g.out_width));
  return true;
}

}  // namespace mlx::kernels::cuda
