// Linear layers on tensor cores: y = act(x wᵀ + b) and its gradients (op_list.h, kLinear…). Widths must be whole chunks
// of 16 bytes (tensor_product.h). linear.cu takes narrow layers.
#include "kernels/cuda/tensor_product.h"

namespace mlx::kernels::cuda {

template <MmaType kType, typename Store>
void tensor_product_of_layer(const State& s, const Args& args, Store store) {
  using Factor = FactorOf<kType>;
  const std::int64_t k_count = s.g.in_width, n_count = s.g.out_width;
  const auto* x = static_cast<const Factor*>(args.inputs[0]);
  const Factor* w = weight_factors<kType>(s, args, k_count * n_count);
  tensor_product<kType, true, true>(
      args, {s.g.rows, n_count, k_count}, x,
      [=] __device__(int, int m, int k) -> const void* { return x + m * k_count + k; },
      [=] __device__(int, int n, int k) -> const void* { return w + n * k_count + k; }, store);
}

struct StoreBesidePre {
  GeluBesidePre gelu;
  std::int64_t width = 0;
  __device__ float beside(int, int, int n) const { return gelu.bias_of(n); }
  __device__ void operator()(int, int, int m, int n, float sum, float bias) const {
    gelu.store(m * width + n, sum, bias);
  }
};

template <MmaType kType>
void run_tensor_linear(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const std::int64_t n_count = s.g.out_width;
  if (s.g.has_pre) return tensor_product_of_layer<kType>(s, args, StoreBesidePre{gelu_beside_pre_of(s, args), n_count});
  const Epilogue epilogue = epilogue_of(s, args);
  tensor_product_of_layer<kType>(
      s, args, [=] __device__(int, int, int m, int n, float sum) { epilogue.store(m * n_count + n, n, sum); });
}

template <MmaType kType, typename Store>
void tensor_product_of_gradient(const State& s, const Args& args, Store store) {
  using Factor = FactorOf<kType>;
  const std::int64_t k_count = s.g.in_width, n_count = s.g.out_width;
  const auto* dy = static_cast<const Factor*>(args.inputs[0]);
  const Factor* w = weight_factors<kType>(s, args, k_count * n_count);
  tensor_product<kType, true, false>(
      args, {s.g.rows, k_count, n_count}, dy,
      [=] __device__(int, int m, int n) -> const void* { return dy + m * n_count + n; },
      [=] __device__(int, int k, int n) -> const void* { return w + n * k_count + k; }, store);
}

struct StoreThroughGelu {
  GeluGradient gelu;
  std::int64_t width = 0;
  __device__ float beside(int, int m, int k) const { return gelu.pre[m * width + k]; }
  __device__ void operator()(int, int, int m, int k, float sum, float pre) const {
    gelu.store(m * width + k, sum, pre);
  }
};

template <MmaType kType>
void run_tensor_linear_backward_data(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const std::int64_t k_count = s.g.in_width;
  if (s.g.has_pre)
    return tensor_product_of_gradient<kType>(s, args, StoreThroughGelu{gelu_gradient_of(s, args), k_count});
  const RealsOut dx = reals_out(s, args, 0, s.g.y_type);
  tensor_product_of_gradient<kType>(
      s, args, [=] __device__(int, int, int m, int k, float sum) { dx.store(m * k_count + k, sum); });
}

template <MmaType kType>
static ProductSize tensor_weights_size(const Geometry& g) {
  ProductSize size{g.out_width, g.in_width, g.rows};
  size.parts = tensor_parts_of_k<kType>(size);
  return size;
}

template <MmaType kType>
void run_tensor_linear_backward_weights(const void* state, const Args& args, int, int) {
  using Factor = FactorOf<kType>;
  const State& s = state_of(state);
  const std::int64_t k_count = s.g.in_width, n_count = s.g.out_width;
  const auto* x = static_cast<const Factor*>(args.inputs[0]);
  const auto* dy = static_cast<const Factor*>(args.inputs[1]);
  float *dw = f32_out(&s, args, 0), *db = f32_out(&s, args, 1), *parts = static_cast<float*>(args.workspace);
  const ProductSize size = tensor_weights_size<kType>(s.g);
  tensor_product<kType, false, false>(
      args, size, x, [=] __device__(int, int n, int row) -> const void* { return dy + row * n_count + n; },
      [=] __device__(int, int k, int row) -> const void* { return x + row * k_count + k; }, part_sums(size, parts, dw));
  add_parts(args, size, parts, dw);
  if (db)
    bias_gradient(args, s.g.rows, n_count, reals_in(s, args, 1, s.g.x_type), static_cast<Pair*>(args.workspace), db);
}

template <MmaType kType>
bool prepare_tensor_linear_of(const Problem& problem, Plan& plan) {
  const Run run = problem.op == Op::kLinear               ? run_tensor_linear<kType>
                  : problem.op == Op::kLinearBackwardData ? run_tensor_linear_backward_data<kType>
                                                          : run_tensor_linear_backward_weights<kType>;
  const State* s = new_state(problem, plan, run, Takes::kHalf);
  if (!s || !whole_chunks<kType>(s->g.in_width)) return false;
  if (problem.op != Op::kLinear && !whole_chunks<kType>(s->g.out_width)) return false;
  const bool weights = problem.op == Op::kLinearBackwardWeights;
  const ProductSize size =
      weights ? tensor_weights_size<kType>(s->g) : ProductSize{s->g.rows, s->g.out_width, s->g.in_width};
  if (!tensor_sized(size)) return false;
  plan.workspace_bytes = weights ? std::max(product_bytes(size), column_bytes(s->g.rows, s->g.out_width))
                                 : recast_weights(s->g, problem.inputs[1].count()).bytes();
  return true;
}

bool prepare_tensor_linear(const Problem& problem, Plan& plan) {
  return with_mma_type(problem, [&]<MmaType kType>() { return prepare_tensor_linear_of<kType>(problem, plan); });
}

}  // namespace mlx::kernels::cuda
