// Relu, relu6, both forms of gelu, soft caps, addition and their gradients: one pass at memory speed.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// An operation on sixteen elements of each input; the second input is the first if there is only one.
struct Relu {
  explicit Relu(const State*) {}
  Floats operator()(Floats x, Floats) const { return relu16(x); }
};
struct ReluBackward {
  explicit ReluBackward(const State*) {}
  Floats operator()(Floats y, Floats dy) const { return keep(y > zeros(), dy); }
};
struct Relu6 {
  explicit Relu6(const State*) {}
  Bounds bounds = bounds_of(Activation::kRelu6);
  Floats operator()(Floats x, Floats) const { return bounded16(bounds, x); }
};
struct Relu6Backward {
  explicit Relu6Backward(const State*) {}
  Floats last = last_passing(Activation::kRelu6);
  Floats operator()(Floats y, Floats dy) const { return keep(passes16(y, last), dy); }
};
struct Gelu {
  explicit Gelu(const State*) {}
  Floats operator()(Floats x, Floats) const { return gelu16(x); }
};
struct GeluBackward {
  explicit GeluBackward(const State*) {}
  Floats operator()(Floats x, Floats dy) const { return gelu_slope16(x) * dy; }
};
struct GeluErf {
  explicit GeluErf(const State*) {}
  Floats operator()(Floats x, Floats) const { return gelu_erf16(x); }
};
struct SoftCap {
  explicit SoftCap(const State* s) : cap(s->attrs.cap) {}
  float cap;
  Floats operator()(Floats x, Floats) const { return soft_cap16(x, cap); }
};
struct SoftCapBackward {
  explicit SoftCapBackward(const State* s) : cap(s->attrs.cap) {}
  float cap;
  Floats operator()(Floats x, Floats dy) const {
    const Floats bound = tanh16(x / broadcast(cap));
    return fnma(bound, bound, broadcast(1.0f)) * dy;
  }
};
struct Add {
  explicit Add(const State* s) : bounds(bounds_of(s->attrs.activation)) {}
  Bounds bounds;
  Floats operator()(Floats a, Floats b) const { return bounded16(bounds, a + b); }
};
struct ScaledAdd {
  explicit ScaledAdd(const State* s) : scale_a(broadcast(s->attrs.scale_a)), scale_b(broadcast(s->attrs.scale_b)) {}
  Floats scale_a, scale_b;
  Floats operator()(Floats a, Floats b) const { return fma(scale_a, a, scale_b * b); }
};

// A, B and Y are the storage types of the inputs and the output, float or BF16.
template <typename Body, typename A, typename B, typename Y>
void run(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Body body(s);
  const A* a = static_cast<const A*>(args.inputs[0]);
  const B* b = s->g.has_input[1] ? static_cast<const B*>(args.inputs[1]) : nullptr;
  Y* y = static_cast<Y*>(args.outputs[0]);
  const Range range = elements_of(s, phase, slice, s->g.count);
  by_vectors(range.begin, range.end, [&](std::int64_t i, auto mask) {
    const Floats first = load(a + i, mask);
    store(y + i, body(first, b ? load(b + i, mask) : first), mask);
  });
}

template <typename Body>
Run activation(const Geometry& g) {
  return stored_as(g.x_type, [&](auto x) {
    return stored_as(g.y_type, [&](auto y) { return run<Body, decltype(x), float, decltype(y)>; });
  });
}
template <typename Body>
Run gradient(const Geometry& g) {
  return stored_as(g.x_type, [&](auto x) {
    return stored_as(g.dy_type, [&](auto dy) {
      return stored_as(g.y_type, [&](auto y) { return run<Body, decltype(x), decltype(dy), decltype(y)>; });
    });
  });
}

Run run_of(Op op, const Geometry& g) {
  switch (op) {
    case Op::kRelu:
      return activation<Relu>(g);
    case Op::kReluBackward:
      return gradient<ReluBackward>(g);
    case Op::kRelu6:
      return activation<Relu6>(g);
    case Op::kRelu6Backward:
      return gradient<Relu6Backward>(g);
    case Op::kGelu:
      return activation<Gelu>(g);
    case Op::kGeluBackward:
      return gradient<GeluBackward>(g);
    case Op::kGeluErf:
      return run<GeluErf, float, float, float>;
    case Op::kSoftCap:
      return activation<SoftCap>(g);
    case Op::kSoftCapBackward:
      return gradient<SoftCapBackward>(g);
    case Op::kScaledAdd:
      return run<ScaledAdd, float, float, float>;
    default:
      return run<Add, float, float, float>;
  }
}

}  // namespace

bool prepare_pointwise(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, nullptr, Takes::kBF16);
  if (!s) return false;
  plan.run = run_of(problem.op, s->g);
  cut(s, plan, 0, (s->g.count + kBlock - 1) / kBlock, s->g.count * 8);
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
