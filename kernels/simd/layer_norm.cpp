// Layer norm over the last dim and its gradient. A row's bits do not depend on the other rows. D and Y are the storage
// types of the gradient and the output: float or BF16.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

template <typename Y>
void forward_row(const State* s, const Args& args, std::int64_t r) {
  const std::int64_t width = s->g.width;
  const float *x = f32_in(s, args, 0) + r * width, *gamma = f32_in(s, args, 1), *beta = f32_in(s, args, 2);
  Y* y = static_cast<Y*>(args.outputs[0]) + r * width;
  Floats sum = zeros();
  by_vectors(0, width, [&](std::int64_t i, auto mask) { sum = sum + load(x + i, mask); });
  const float mean = lane_sum(sum) / static_cast<float>(width);
  Floats square = zeros();
  by_vectors(0, width, [&](std::int64_t i, auto mask) {
    const Floats off = keep(mask, load(x + i, mask) - broadcast(mean));
    square = fma(off, off, square);
  });
  const double variance = double{lane_sum(square)} / static_cast<double>(width);
  const auto rstd = static_cast<float>(1.0 / sqrt(variance + double{s->attrs.epsilon}));
  by_vectors(0, width, [&](std::int64_t i, auto mask) {
    const Floats off = load(x + i, mask) - broadcast(mean);
    const Floats normal = off * broadcast(rstd);
    const Floats shift = load(beta + i, mask);
    store(y + i, fma(normal, load(gamma + i, mask), shift), mask);
  });
  if (s->g.has_output[1]) f32_out(s, args, 1)[r] = mean;
  if (s->g.has_output[2]) f32_out(s, args, 2)[r] = rstd;
}

template <typename Y>
void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Range rows = range_of(s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) forward_row<Y>(s, args, r);
}

// Computes dx of one row, and adds the row's share of dgamma and dbeta to the slice's sums.
template <typename D>
void backward_row(const State* s, const Args& args, std::int64_t r, float* dgamma, float* dbeta) {
  const std::int64_t width = s->g.width;
  const float *x = f32_in(s, args, 0) + r * width, *gamma = f32_in(s, args, 2);
  const D* dy = static_cast<const D*>(args.inputs[1]) + r * width;
  float* dx = f32_out(s, args, 0) + r * width;
  const Floats mean = broadcast(f32_in(s, args, 3)[r]), rstd = broadcast(f32_in(s, args, 4)[r]);
  Floats plain = zeros(), weighted = zeros();
  by_vectors(0, width, [&](std::int64_t i, auto mask) {
    const Floats g = load(dy + i, mask);
    const Floats off = keep(mask, load(x + i, mask) - mean);
    const Floats normal = off * rstd, d = g * load(gamma + i, mask);
    plain = plain + d;
    weighted = fma(d, normal, weighted);
    const Floats old = load(dgamma + i, mask);
    store(dgamma + i, fma(g, normal, old), mask);
    store(dbeta + i, load(dbeta + i, mask) + g, mask);
  });
  const float share = 1.0f / static_cast<float>(width);
  const Floats average = broadcast(lane_sum(plain) * share);
  const Floats slope = broadcast(lane_sum(weighted) * share);
  by_vectors(0, width, [&](std::int64_t i, auto mask) {
    const Floats normal = (load(x + i, mask) - mean) * rstd;
    const Floats d = load(dy + i, mask) * load(gamma + i, mask);
    const Floats inner = fnma(normal, slope, d - average);
    store(dx + i, rstd * inner, mask);
  });
}

// Phase 0, by row, computes dx and each slice's dgamma and dbeta; phase 1, by column, adds those in slice order.
template <typename D>
void backward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t width = s->g.width;
  auto* partial = static_cast<float*>(args.workspace);
  const Range range = range_of(s, phase, slice);
  if (phase == 0) {
    float* own = partial + 2 * width * slice;
    for (std::int64_t i = 0; i < 2 * width; ++i) own[i] = 0.0f;
    for (std::int64_t r = range.begin; r < range.end; ++r) backward_row<D>(s, args, r, own, own + width);
    return;
  }
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    double weighted = 0.0, plain = 0.0;
    for (int from = 0; from < s->slices[0]; ++from) {
      weighted += partial[2 * width * from + i];
      plain += partial[2 * width * from + width + i];
    }
    f32_out(s, args, 1)[i] = static_cast<float>(weighted);
    f32_out(s, args, 2)[i] = static_cast<float>(plain);
  }
}

}  // namespace

bool prepare_layer_norm(const Problem& problem, Plan& plan) {
  const bool back = problem.op == Op::kLayerNormBackward;
  State* s = new_state(problem, plan, nullptr, Takes::kBF16);
  if (!s || s->g.has_input[back ? 5 : 3]) return false;  // only GPUs sum beside the norm
  plan.run = back ? stored_as(s->g.dy_type, [](auto dy) { return backward<decltype(dy)>; })
                  : stored_as(s->g.y_type, [](auto y) { return forward<decltype(y)>; });
  cut(s, plan, 0, s->g.rows, s->g.count * 8);
  if (back) {
    cut(s, plan, 1, s->g.width, s->g.width * s->slices[0] * 8);
    plan.workspace_bytes = bytes_of(2 * s->slices[0] * s->g.width, sizeof(float));
  }
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
