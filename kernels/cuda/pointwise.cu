// Activations, additions, casts, quantization and their gradients on CUDA (op_list.h): elementwise, one thread per
// element.
#include "kernels/cuda/group.h"

namespace mlx::kernels::cuda {

// Not in an anonymous namespace: nvcc requires external linkage of functions with device lambdas.
__device__ inline float pointwise(Op op, float a, float b, Activation activation, float scale_a, float scale_b,
                                  float cap) {
  switch (op) {
    case Op::kRelu:
      return activate(Activation::kRelu, a);
    case Op::kRelu6:
      return activate(Activation::kRelu6, a);
    case Op::kGelu:
      return gelu(a);
    case Op::kReluBackward:
      return passes(Activation::kRelu, a) ? b : 0.0f;
    case Op::kRelu6Backward:
      return passes(Activation::kRelu6, a) ? b : 0.0f;
    case Op::kGeluBackward:
      return gelu_slope(a) * b;
    case Op::kAdd:
      return activate(activation, a + b);
    case Op::kScaledAdd:
      return scale_a * a + scale_b * b;
    case Op::kSoftCap:
      return cap * tanhf(a / cap);
    case Op::kSoftCapBackward: {
      const float bound = tanhf(a / cap);
      return (1.0f - bound * bound) * b;
    }
    default:
      return a;
  }
}

template <Op kOp>
void run_pointwise(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const Reals a = reals_in(s, args, 0, s.g.x_type), b = reals_in(s, args, 1, s.g.dy_type);
  const RealsOut y = reals_out(s, args, 0, s.g.y_type);
  const Activation activation = s.attrs.activation;
  const float scale_a = s.attrs.scale_a, scale_b = s.attrs.scale_b, cap = s.attrs.cap;
  each(args, s.g.count, [=] __device__(std::int64_t i) {
    y.store(i, pointwise(kOp, a[i], b.data ? b[i] : 0.0f, activation, scale_a, scale_b, cap));
  });
}

void run_quantize(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const float* x = f32_in(&s, args, 0);
  const BytesOut y{args.outputs[0], s.g.y_type == DType::kS8};
  const float scale = s.attrs.scale_y;
  each(args, s.g.count, [=] __device__(std::int64_t i) { y.store(i, x[i] / scale); });
}

void run_dequantize(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const Bytes x{args.inputs[0], s.g.x_type == DType::kS8};
  float* y = f32_out(&s, args, 0);
  const float scale = s.attrs.scale_x;
  each(args, s.g.count, [=] __device__(std::int64_t i) { y[i] = static_cast<float>(x[i]) * scale; });
}

static Run pointwise_run(Op op) {
  switch (op) {
    case Op::kRelu:
      return run_pointwise<Op::kRelu>;
    case Op::kReluBackward:
      return run_pointwise<Op::kReluBackward>;
    case Op::kRelu6:
      return run_pointwise<Op::kRelu6>;
    case Op::kRelu6Backward:
      return run_pointwise<Op::kRelu6Backward>;
    case Op::kGelu:
      return run_pointwise<Op::kGelu>;
    case Op::kGeluBackward:
      return run_pointwise<Op::kGeluBackward>;
    case Op::kAdd:
      return run_pointwise<Op::kAdd>;
    case Op::kSoftCap:
      return run_pointwise<Op::kSoftCap>;
    case Op::kSoftCapBackward:
      return run_pointwise<Op::kSoftCapBackward>;
    case Op::kScaledAdd:
      return run_pointwise<Op::kScaledAdd>;
    case Op::kQuantize:
      return run_quantize;
    case Op::kDequantize:
      return run_dequantize;
    default:
      return nullptr;
  }
}

namespace {

struct Cast {
  Reals from;
  RealsOut to;
  std::int64_t count;
};
struct Casting {
  bool operator==(const Casting&) const = default;
  struct Begun {};
  __device__ Begun begin() const { return {}; }
  __device__ void operator()(const Cast& cast, std::int64_t i, Begun) const { cast.to.store(i, cast.from[i]); }
};

void run_casts(const Call* calls, int count) {
  run_group(
      calls, count, [](const State&, const Args&) -> Casting { return {}; },
      [](const State& s, const Args& args) -> Cast {
        return {reals_in(s, args, 0, s.g.x_type), reals_out(s, args, 0, s.g.y_type), s.g.count};
      });
}

}  // namespace

bool prepare_pointwise(const Problem& problem, Plan& plan) {
  if (problem.op == Op::kCast) {
    if (!new_state(problem, plan, nullptr, Takes::kHalf)) return false;
    take_many<run_casts>(plan);
    return true;
  }
  const Run run = pointwise_run(problem.op);
  return run && new_state(problem, plan, run, Takes::kHalf);
}

}  // namespace mlx::kernels::cuda
