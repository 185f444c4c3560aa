// Convolutions with cuDNN, if it is present and takes the problem (op_list.h, kConv2d…).
#include "kernels/cuda/cudnn.h"
#include "kernels/cuda/product.h"

namespace mlx::kernels::cuda {
namespace {

// A convolution run by cuDNN.
struct LibraryConv {
  Plan own;  // the same without the library, in case that declines late
  std::unique_ptr<cudnn::Convolution> convolution;
  Recast weights;
};

// y = act(y + b), in place.
void finish(const Args& args, const State& s) {
  const Activation activation = s.attrs.activation;
  const float* b = f32_in(&s, args, 2);
  if (!b && activation == Activation::kNone) return;
  const Reals before{args.outputs[0], s.g.y_type};
  const RealsOut y = reals_out(s, args, 0, s.g.y_type);
  const std::int64_t columns = s.g.o;
  each(args, s.g.n * s.g.oh * s.g.ow * columns,
       [=] __device__(std::int64_t i) { y.store(i, activate(activation, before[i] + (b ? b[i % columns] : 0.0f))); });
}

void run_by_library(const void* state, const Args& args, int phase, int slice) {
  const auto& s = *static_cast<const LibraryConv*>(state);
  const State& own = state_of(s.own.state);
  const void *first = args.inputs[0], *second = args.inputs[1];
  Parts parts(args.workspace);
  void* workspace = parts.take(s.convolution->workspace_bytes);
  const Op op = s.convolution->op;
  if (op != Op::kConv2dBackwardWeights) second = recast_to(args, s.weights, second, parts.take(s.weights.bytes()));
  if (!cudnn::run_convolution(args, *s.convolution, first, second, args.outputs[0], workspace))
    return s.own.run(s.own.state, args, phase, slice);
  if (op == Op::kConv2d) finish(args, own);
  if (op != Op::kConv2dBackwardWeights) return;
  const std::int64_t rows = own.g.n * own.g.oh * own.g.ow;
  auto* sums = static_cast<Pair*>(parts.take(column_bytes(rows, own.g.o)));
  if (float* db = f32_out(&own, args, 1))
    bias_gradient(args, rows, own.g.o, reals_in(own, args, 1, own.g.x_type), sums, db);
}

// All of cuDNN's tensors have one type. It rounds y before anything after the product is applied. Relu and relu6 are
// not affected by that, but a bias and gelu are. The weights' gradient must stay f32.
bool library_may(Op op, const State& s) {
  if (s.g.quantized) return false;
  if (s.g.x_type == DType::kF32) return true;
  if (op == Op::kConv2dBackwardWeights || s.g.y_type != s.g.x_type) return false;
  return op != Op::kConv2d || (!s.g.has_input[2] && s.attrs.activation != Activation::kGelu);
}

}  // namespace

bool prepare_library_conv(const Problem& problem, Plan& plan) {
  if (!prepare_tensor_conv(problem, plan)) {
    const Plan declined = std::exchange(plan, {});
    if (declined.destroy) declined.destroy(declined.state);
    if (!prepare_conv(problem, plan)) return false;
  }
  const State& s = state_of(plan.state);
  if (!library_may(problem.op, s)) return false;
  LibraryConv conv{plan, cudnn::plan_convolution(problem.op, s.g, s.attrs, s.g.x_type), {}};
  if (!conv.convolution) return false;
  std::size_t sums = 0;
  if (problem.op == Op::kConv2dBackwardWeights)
    sums = column_bytes(s.g.n * s.g.oh * s.g.ow, s.g.o);
  else
    conv.weights = {problem.inputs[1].count(), problem.inputs[1].dtype, s.g.x_type};
  const std::size_t bytes = bytes_of_parts({conv.convolution->workspace_bytes, conv.weights.bytes(), sums});
  replace_plan(plan, new LibraryConv(std::move(conv)), run_by_library, bytes);
  return true;
}

}  // namespace mlx::kernels::cuda
