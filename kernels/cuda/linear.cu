// Linear layers on CUDA: y = act(x wᵀ + b) and its gradients, f32, bf16 and quantized (op.h, kLinear…). cuBLASLt
// multiplies where there is one and it takes the problem; else, and what is quantized, the product of product.h.
#include "kernels/cuda/cublas_lt.h"
#include "kernels/cuda/product.h"

namespace mlx::kernels::cuda {

void bias_gradient(const Args& args, std::int64_t rows, std::int64_t columns, Reals dy, Pair* parts, float* db) {
  const auto element = [=] __device__(std::int64_t r, std::int64_t c) -> Pair { return {dy[r * columns + c], 0.0f}; };
  sum_columns(args, rows, columns, element, parts);
  const std::int64_t count = row_parts(rows);
  each(args, columns,
       [=] __device__(std::int64_t c) { db[c] = static_cast<float>(column_of(parts, count, columns, c).first); });
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
  const Reals x = reals_in(s, args, 0, s.g.x_type);
  const Weights w{f32_in(&s, args, 1), s.g.x_type == DType::kBF16};
  product<float>(
      args, size, [=] __device__(std::int64_t, std::int64_t m, std::int64_t k) -> float { return x[m * k_count + k]; },
      [=] __device__(std::int64_t, std::int64_t k, std::int64_t n) -> float { return w[n * k_count + k]; },
      [=] __device__(std::int64_t, std::int64_t, std::int64_t m, std::int64_t n, float sum) {
        epilogue.store(m * n_count + n, n, sum);
      });
}

void run_linear_backward_data(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const std::int64_t k_count = s.g.in_width, n_count = s.g.out_width;
  const Reals dy = reals_in(s, args, 0, s.g.x_type);
  const Weights w{f32_in(&s, args, 1), s.g.x_type == DType::kBF16};
  const RealsOut dx = reals_out(s, args, 0, s.g.y_type);
  product<float>(
      args, ProductSize{s.g.rows, k_count, n_count},
      [=] __device__(std::int64_t, std::int64_t m, std::int64_t n) -> float { return dy[m * n_count + n]; },
      [=] __device__(std::int64_t, std::int64_t n, std::int64_t k) -> float { return w[n * k_count + k]; },
      [=] __device__(std::int64_t, std::int64_t, std::int64_t m, std::int64_t k, float sum) {
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

namespace {

// A layer whose product is cuBLASLt's. What it writes is row-major, which for it are the transposed matrices:
//   yᵀ[N,M] = w[N,K] · xᵀ[K,M]     A = w, row-major and so transposed, B = x; the bias goes along the rows of yᵀ
//   dxᵀ[K,M] = wᵀ[K,N] · dyᵀ[N,M]  A = w, B = dy
//   dwᵀ[K,N] = xᵀ[K,M] · dy[M,N]   A = x, B = dy, transposed; db sums the columns of op(B)
struct LibraryLinear {
  Plan own;  // the same without the library: for tensors that are not aligned()
  Op op{};
  std::unique_ptr<cublas_lt::Matmul> product;
  Recast weights, bias;
  Activation then = Activation::kNone;  // what the product does not do itself, in place on y
};

void run_forward_or_data(const LibraryLinear& s, const State& own, const Args& args) {
  const Geometry& g = own.g;
  const float* bias = f32_in(&own, args, 2);
  Parts parts(args.workspace);
  void* workspace = parts.take(s.product->workspace_bytes);
  const void* w = recast_to(args, s.weights, args.inputs[1], parts.take(s.weights.bytes()));
  const void* b = bias ? recast_to(args, s.bias, bias, parts.take(s.bias.bytes())) : nullptr;
  cublas_lt::run_matmul(name_of(s.op), args, *s.product, w, args.inputs[0], args.outputs[0], b, workspace);
  if (s.then == Activation::kNone) return;
  const Reals before{args.outputs[0], g.y_type == DType::kBF16};
  const RealsOut y = reals_out(own, args, 0, g.y_type);
  const Activation activation = s.then;
  each(args, g.rows * g.out_width, [=] __device__(std::int64_t i) { y.store(i, activate(activation, before[i])); });
}

void run_weights(const LibraryLinear& s, const State& own, const Args& args) {
  const Geometry& g = own.g;
  float* db = f32_out(&own, args, 1);
  Parts parts(args.workspace);
  void* workspace = parts.take(s.product->workspace_bytes);
  cublas_lt::run_matmul(name_of(s.op), args, *s.product, args.inputs[0], args.inputs[1], args.outputs[0], db,
                        workspace);
  if (!db || s.product->takes_vector) return;
  auto* sums = static_cast<Pair*>(parts.take(column_bytes(g.rows, g.out_width)));
  bias_gradient(args, g.rows, g.out_width, reals_in(own, args, 1, g.x_type), sums, db);
}

void run_by_library(const void* state, const Args& args, int phase, int slice) {
  const auto& s = *static_cast<const LibraryLinear*>(state);
  const State& own = state_of(s.own.state);
  if (!aligned({args.inputs[0], args.inputs[1], f32_in(&own, args, 2), args.outputs[0], f32_out(&own, args, 1)}))
    s.own.run(s.own.state, args, phase, slice);
  else if (s.op == Op::kLinearBackwardWeights)
    run_weights(s, own, args);
  else
    run_forward_or_data(s, own, args);
}

// Fused with the product: bias and relu, and gelu where y is bf16. The library's tanh has no stated accuracy, which
// bf16 hides and f32 would show. What is left is done to y in place: gelu of what is f32, and relu6, which gives the
// same before and after rounding.
unsigned fused(const State& s) {
  unsigned epilogue = s.g.has_input[2] ? cublas_lt::kBias : 0;
  if (s.attrs.activation == Activation::kRelu) epilogue |= cublas_lt::kRelu;
  if (s.attrs.activation == Activation::kGelu && s.g.y_type != DType::kF32) epilogue |= cublas_lt::kGelu;
  return epilogue == 0 ? cublas_lt::kPlain : epilogue;
}

cublas_lt::Product product_of(Op op, const State& s) {
  const Geometry& g = s.g;
  cublas_lt::Product product;
  product.factors = g.x_type, product.result = g.y_type;
  if (op == Op::kLinear) {
    product.m = g.out_width, product.n = g.rows, product.k = g.in_width;
    product.transpose_a = true;
    product.epilogue = fused(s);
  } else if (op == Op::kLinearBackwardData) {
    product.m = g.in_width, product.n = g.rows, product.k = g.out_width;
  } else {
    product.m = g.in_width, product.n = g.out_width, product.k = g.rows;
    product.transpose_b = true;
    if (g.has_output[1]) product.epilogue = cublas_lt::kBiasGradientB;
  }
  return product;
}

// Makes `plan`, which does without, one that uses the library where that takes the problem.
void use_library(const Problem& problem, Plan& plan) {
  const State& s = state_of(plan.state);
  if (s.g.quantized) return;
  cublas_lt::Product product = product_of(problem.op, s);
  LibraryLinear layer{plan, problem.op, cublas_lt::plan_matmul(product), {}, {}, Activation::kNone};
  if (!layer.product && product.epilogue == cublas_lt::kBiasGradientB) {  // not of every type
    product.epilogue = cublas_lt::kPlain;
    layer.product = cublas_lt::plan_matmul(product);
  }
  if (!layer.product) return;
  std::size_t sums = 0;
  if (problem.op == Op::kLinearBackwardWeights)
    sums = column_bytes(s.g.rows, s.g.out_width);
  else
    layer.weights = {s.g.out_width * s.g.in_width, problem.inputs[1].dtype, s.g.x_type};
  if (s.g.has_input[2]) layer.bias = {s.g.out_width, problem.inputs[2].dtype, s.g.y_type};
  const bool activates = (product.epilogue & (cublas_lt::kRelu | cublas_lt::kGelu)) != 0;
  if (problem.op == Op::kLinear && !activates) layer.then = s.attrs.activation;
  const std::size_t bytes =
      bytes_of_parts({layer.product->workspace_bytes, layer.weights.bytes(), layer.bias.bytes(), sums});
  replace_plan(plan, new LibraryLinear(std::move(layer)), run_by_library, bytes);
}

}  // namespace

bool prepare_linear(const Problem& problem, Plan& plan) {
  const Run run = problem.op == Op::kLinear               ? run_linear
                  : problem.op == Op::kLinearBackwardData ? run_linear_backward_data
                                                          : run_linear_backward_weights;
  const State* s = new_state(problem, plan, run, Takes::kBF16);
  if (!s) return false;
  if (problem.op == Op::kLinearBackwardWeights)
    plan.workspace_bytes = std::max(product_bytes(weights_size(s->g)), column_bytes(s->g.rows, s->g.out_width));
  use_library(problem, plan);
  return true;
}

}  // namespace mlx::kernels::cuda
