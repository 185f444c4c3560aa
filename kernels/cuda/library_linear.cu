// Linear layers by cuBLASLt, where there is one and it takes the problem (op.h, kLinear…).
#include "kernels/cuda/cublas_lt.h"
#include "kernels/cuda/product.h"

namespace mlx::kernels::cuda {
namespace {

// A layer whose product is cuBLASLt's. What it writes is row-major, which for it are the transposed matrices:
//   yᵀ[N,M] = w[N,K] · xᵀ[K,M]     A = w, row-major and so transposed, B = x; the bias goes along the rows of yᵀ
//   dxᵀ[K,M] = wᵀ[K,N] · dyᵀ[N,M]  A = w, B = dy
//   dwᵀ[K,N] = xᵀ[K,M] · dy[M,N]   A = x, B = dy, transposed; db sums the columns of op(B)
struct LibraryLinear {
  Plan own;  // whose state has the sizes; it does not run
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
  const Reals before{args.outputs[0], g.y_type};
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

void run_by_library(const void* state, const Args& args, int, int) {
  const auto& s = *static_cast<const LibraryLinear*>(state);
  const State& own = state_of(s.own.state);
  if (s.op == Op::kLinearBackwardWeights)
    run_weights(s, own, args);
  else
    run_forward_or_data(s, own, args);
}

// Fused with the product: bias and relu, and gelu where y is half. The library's tanh has no stated accuracy, which
// half precision hides and f32 would show. What is left is done to y in place: gelu of what is f32, and relu6, which
// gives the same before and after rounding.
unsigned fused(const State& s) {
  unsigned epilogue = s.g.has_input[2] ? cublas_lt::kBias : 0;
  if (s.attrs.activation == Activation::kRelu) epilogue |= cublas_lt::kRelu;
  if (s.attrs.activation == Activation::kGelu && s.g.y_type != DType::kF32) epilogue |= cublas_lt::kGelu;
  return epilogue == 0 ? cublas_lt::kPlain : epilogue;
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
  if (!layer.product && product.epilogue == cublas_lt::kBiasGradientB) {  // not of every type
    product.epilogue = cublas_lt::kPlain;
    layer.product = cublas_lt::plan_matmul(product);
  }
  if (!layer.product) return false;
  std::size_t sums = 0;
  if (problem.op == Op::kLinearBackwardWeights)
    sums = column_bytes(s->g.rows, s->g.out_width);
  else
    layer.weights = {s->g.out_width * s->g.in_width, problem.inputs[1].dtype, s->g.x_type};
  if (s->g.has_input[2]) layer.bias = {s->g.out_width, problem.inputs[2].dtype, s->g.y_type};
  const bool activates = (product.epilogue & (cublas_lt::kRelu | cublas_lt::kGelu)) != 0;
  if (problem.op == Op::kLinear && !activates) layer.then = s->attrs.activation;
  const std::size_t bytes =
      bytes_of_parts({layer.product->workspace_bytes, layer.weights.bytes(), layer.bias.bytes(), sums});
  replace_plan(plan, new LibraryLinear(std::move(layer)), run_by_library, bytes);
  return true;
}

}  // namespace mlx::kernels::cuda
