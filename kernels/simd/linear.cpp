// Linear layer, f32. Forward and the gradient to x multiply rows with packed weights; the gradient to the weights sums
// outer products (product.h). Each element sums its terms in order, so a row's bits do not depend on the other rows.
#include "kernels/simd/linear.h"

namespace mlx::kernels::MLX_ISA {
namespace {

void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  multiply_slice<float>(s, args, f32_in(s, args, 2), s->g.in_width, s->g.out_width, phase, slice);
}
void pack_forward(const void* opaque, const void* weights, const void*, void* packed) {
  const Geometry& g = state_of(opaque)->g;
  pack_columns(static_cast<const float*>(weights), g.in_width, g.in_width, g.out_width, static_cast<float*>(packed));
}

// With weights that are stored in half precision: the same sums as with the f32 that they stand for.
template <typename Half>
void forward_half(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  multiply_slice<float, Half>(s, args, f32_in(s, args, 2), s->g.in_width, s->g.out_width, phase, slice);
}
template <typename Half>
void pack_half(const void* opaque, const void* weights, const void*, void* packed) {
  const Geometry& g = state_of(opaque)->g;
  const auto* w = static_cast<const Half*>(weights);
  pack_columns(g.in_width, g.out_width, static_cast<Half*>(packed),
               [&](std::int64_t j, std::int64_t p) { return load(w + j * g.in_width + p, lanes(g.in_width - p)); });
}

void backward_data(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  multiply_slice<float>(s, args, nullptr, s->g.out_width, s->g.in_width, phase, slice);
}
void pack_backward(const void* opaque, const void* weights, const void*, void* packed) {
  const Geometry& g = state_of(opaque)->g;
  const auto* w = static_cast<const float*>(weights);
  for (std::int64_t n = 0; n < g.out_width; ++n)
    pack_term(w + n * g.in_width, n, g.out_width, g.in_width, static_cast<float*>(packed));
}

// Phase 1 sums db.
void backward_weights(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Range items = range_of(s, phase, slice);
  if (phase == 0) return sum_weights(s, f32_in(s, args, 0), f32_in(s, args, 1), s->g.rows, f32_out(s, args, 0), items);
  sum_bias(s, f32_in(s, args, 1), f32_out(s, args, 1), items);
}

}  // namespace

bool prepare_linear(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, forward);
  if (!s || s->g.quantized || s->g.has_pre) return false;
  const std::int64_t k = s->g.in_width, n = s->g.out_width;
  if (problem.op == Op::kLinear) {
    plan.pack = pack_forward;
    plan.layout_count = 0;
    cut_product(s, plan, k, n);
    if (!stored_in_half(problem, 1)) return true;
    const bool bf16 = problem.stored[1] == DType::kBF16;
    plan.run = bf16 ? forward_half<BF16> : forward_half<F16>;
    plan.pack = bf16 ? pack_half<BF16> : pack_half<F16>;
    plan.packs_stored = true;
    plan.packed_bytes = panels_bytes(k, n, sizeof(F16));
  } else if (problem.op == Op::kLinearBackwardData) {
    plan.run = backward_data;
    plan.pack = pack_backward;
    plan.layout_count = 0;
    s->attrs.activation = Activation::kNone;
    cut_product(s, plan, n, k);
  } else {
    plan.run = backward_weights;
    cut(s, plan, 0, weight_blocks(n, k), n * k * (s->g.rows / 4 + 4));
    if (s->g.has_output[1]) cut(s, plan, 1, (n + 15) / 16, s->g.rows * n * 4);
  }
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
