// Linear layers with cuBLASLt, if it is present and takes the problem (op_list.h, kLinear…).
#include "kernels/cuda/cublas_lt.h"
#include "kernels/cuda/product.h"

namespace mlx::kernels::cuda {
namespace {

// A layer whose product cuBLASLt computes. Its results are row-major, which are transposed matrices to the library:
//   yᵀ[N,M] = w[N,K] · xᵀ[K,M]     A = w, row-major and so transposed, B = x; the bias goes along the rows of yᵀ
//   dxᵀ[K,M] = wᵀ[K,N] · dyᵀ[N,M]  A = w, B = dy
//   dwᵀ[K,N] = xᵀ[K,M] · dy[M,N]   A = x, B = dy, transposed; db sums the columns of op(B)
struct LibraryLinear {
  Plan own;  // its state has the sizes; it does not run
  Op op{};
  std::unique_ptr<cublas_lt::Matmul> product;
  Recast weights, bias;
  Activation then = Activation::kNone;  // the activation, or its gradient, that runs after the product
};

cublas_lt::Operands with_weights(const LibraryLinear& s, const Args& args, Parts& parts) {
  cublas_lt::Operands on;
  on.workspace = parts.take(s.product->workspace_bytes);
  on.a = recast_to(args, s.weights, args.inputs[1], parts.take(s.weights.bytes()));
  on.b = args.inputs[0];
  return on;
}

// Computes y from the product: in place, or from the stored pre-activation.
void activate_all(const LibraryLinear& s, const State& own, const Args& args, const void* product) {
  const Geometry& g = own.g;
  const Reals before{product, g.y_type};
  const RealsOut y = reals_out(own, args, 0, g.y_type);
  const Activation activation = s.then;
  each(args, g.rows * g.out_width, [=] __device__(std::int64_t i) { y.store(i, activate(activation, before[i])); });
}

void run_forward(const LibraryLinear& s, const State& own, const Args& args) {
  const Geometry& g = own.g;
  const float* bias = f32_in(&own, args, 2);
  void* pre = g.has_pre ? args.outputs[1] : nullptr;
  Parts parts(args.workspace);
  cublas_lt::Operands on = with_weights(s, args, parts);
  on.d = pre && s.then != Activation::kNone ? pre : args.outputs[0];
  on.vector = bias ? recast_to(args, s.bias, bias, parts.take(s.bias.bytes())) : nullptr;
  on.matrix = pre;
  cublas_lt::run_matmul(name_of(s.op), args, *s.product, on);
  if (s.then != Activation::kNone) activate_all(s, own, args, on.d);
}

void run_data(const LibraryLinear& s, const State& own, const Args& args) {
  const Geometry& g = own.g;
  Parts parts(args.workspace);
  cublas_lt::Operands on = with_weights(s, args, parts);
  on.d = args.outputs[0];
  on.matrix = g.has_pre ? args.inputs[2] : nullptr;
  cublas_lt::run_matmul(name_of(s.op), args, *s.product, on);
  if (s.then == Activation::kNone) return;
  const Reals product{args.outputs[0], g.y_type};
  const GeluGradient gelu = gelu_gradient_of(own, args);
  each(args, g.rows * g.in_width, [=] __device__(std::int64_t i) { gelu.store(i, product[i], gelu.pre[i]); });
}

void run_weights(const LibraryLinear& s, const State& own, const Args& args) {
  const Geometry& g = own.g;
  float* db = f32_out(&own, args, 1);
  Parts parts(args.workspace);
  void* workspace = parts.take(s.product->workspace_bytes);
  cublas_lt::run_matmul(name_of(s.op), args, *s.product,
                        {args.inputs[0], args.inputs[1], args.outputs[0], db, nullptr, workspace});
  if (!db || s.product->takes_vector) return;
  auto* sums = static_cast<Pair*>(parts.take(column_bytes(g.rows, g.out_width)));
  bias_gradient(args, g.rows, g.out_width, reals_in(own, args, 1, g.x_type), sums, db);
}

void run_by_library(const void* state, const Args& args, int, int) {
  const auto& s = *static_cast<const LibraryLinear*>(state);
  const State& own = state_of(s.own.state);
  if (s.op == Op::kLinear)
    run_forward(s, own, args);
  else if (s.op == Op::kLinearBackwardData)
    run_data(s, own, args);
  else
    run_weights(s, own, args);
}

// What is fused with the product: bias and relu, and gelu and its gradient if the result is half precision. The
// accuracy of the library's tanh is not documented; half precision hides it, f32 would not. The rest runs after the
// product: gelu in f32, and relu6, which is the same before and after rounding.
unsigned fused(const State& s) {
  const bool gelu = s.attrs.activation == Activation::kGelu && s.g.y_type != DType::kF32;
  unsigned epilogue = s.g.has_input[2] ? cublas_lt::kBias : 0;
  if (s.attrs.activation == Activation::kRelu) epilogue |= cublas_lt::kRelu;
  if (gelu) epilogue |= s.g.has_pre ? cublas_lt::kGelu | cublas_lt::kAuxiliary : cublas_lt::kGelu;
  return epilogue == 0 ? cublas_lt::kPlain : epilogue;
}
unsigned fused_with_data(const State& s) {
  return s.g.has_pre && s.g.y_type != DType::kF32 ? cublas_lt::kGeluGradient : cublas_lt::kPlain;
}
// The activation that an epilogue leaves to be done.
Activation left_by(unsigned epilogue, const State& s) {
  constexpr unsigned kActivates = cublas_lt::kRelu | cublas_lt::kGelu | cublas_lt::kGeluGradient;
  return (epilogue & kActivates) != 0 ? Activation::kNone : s.attrs.activation;
}

cublas_lt::Product product_of(Op op, const State& s) {
  const Geometry& g = s.g;
  cublas_lt::Product product;
  product.factors = g.x_type, product.result = g.y_type, product.tf32 = s.attrs.tf32;
  if (op == Op::kLinear) {
    product.m = g.out_width, product.n = g.rows, product.k = g.in_width;
    product.transpose_a = true;
    product.epilogue = fused(s);
  } else if (op == Op::kLinearBackwardData) {
    product.m = g.in_width, product.n = g.rows, product.k = g.out_width;
    product.epilogue = fused_with_data(s);
  } else {
    product.m = g.in_width, product.n = g.out_width, product.k = g.rows;
    product.transpose_b = true;
    if (g.has_output[1]) product.epilogue = cublas_lt::kBiasGradientB;
  }
  return product;
}

}  // namespace

bool prepare_library_linear(const Problem& problem, Plan& plan) {
  const State* s = new_state(problem, plan, nullptr, Takes::kHalf);
  if (!s || s->g.quantized) return false;
  cublas_lt::Product product = product_of(problem.op, *s);
  LibraryLinear layer{plan, problem.op, cublas_lt::plan_matmul(product), {}, {}, Activation::kNone};
  if (!layer.product && (product.epilogue & (cublas_lt::kBiasGradientB | cublas_lt::kAuxiliary)) != 0) {
    // Not supported for every type and size.
    product.epilogue = (product.epilogue & cublas_lt::kBias) != 0 ? cublas_lt::kBias : cublas_lt::kPlain;
    layer.product = cublas_lt::plan_matmul(product);
  }
  if (!layer.product) return false;
  const bool weights = problem.op == Op::kLinearBackwardWeights;
  const std::size_t sums = weights ? column_bytes(s->g.rows, s->g.out_width) : 0;
  if (!weights) {
    layer.weights = {s->g.out_width * s->g.in_width, problem.inputs[1].dtype, s->g.x_type};
    layer.then = left_by(product.epilogue, *s);
  }
  if (problem.op == Op::kLinear && s->g.has_input[2])
    layer.bias = {s->g.out_width, problem.inputs[2].dtype, s->g.y_type};
  const std::size_t bytes =
      bytes_of_parts({layer.product->workspace_bytes, layer.weights.bytes(), layer.bias.bytes(), sums});
  replace_plan(plan, new LibraryLinear(std::move(layer)), run_by_library, bytes);
  return true;
}

}  // namespace mlx::kernels::cuda
