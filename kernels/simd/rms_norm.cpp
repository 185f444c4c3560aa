// RMS norm over the last dim and its gradient. A row's bits do not depend on the other rows. D and Y are the storage
// types of the gradient and the output: float or BF16.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

template <typename Y>
void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t width = s->g.width;
  const float* gamma = f32_in(s, args, 1);
  const Range rows = range_of(s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const float* x = f32_in(s, args, 0) + r * width;
    Y* y = static_cast<Y*>(args.outputs[0]) + r * width;
    Floats squares = zeros();
    by_vectors(0, width, [&](std::int64_t i, auto mask) {
      const Floats value = load(x + i, mask);
      squares = fma(value, value, squares);
    });
    const double mean = double{lane_sum(squares)} / static_cast<double>(width);
    const auto rstd = static_cast<float>(1.0 / sqrt(mean + double{s->attrs.epsilon}));
    by_vectors(0, width, [&](std::int64_t i, auto mask) {
      const Floats normal = load(x + i, mask) * broadcast(rstd);
      store(y + i, normal * load(gamma + i, mask), mask);
    });
    if (s->g.has_output[1]) f32_out(s, args, 1)[r] = rstd;
  }
}

// Computes dx of one row, and adds the row's share of dgamma to the slice's sums. The formula is in ref/rms_norm.cpp.
template <typename D>
void backward_row(const State* s, const Args& args, std::int64_t r, float* dgamma) {
  const std::int64_t width = s->g.width;
  const float *x = f32_in(s, args, 0) + r * width, *gamma = f32_in(s, args, 2);
  const D* dy = static_cast<const D*>(args.inputs[1]) + r * width;
  float* dx = f32_out(s, args, 0) + r * width;
  const Floats rstd = broadcast(f32_in(s, args, 3)[r]);
  Floats weighted = zeros();
  by_vectors(0, width, [&](std::int64_t i, auto mask) {
    const Floats d = load(dy + i, mask);
    const Floats normal = load(x + i, mask) * rstd;
    weighted = fma(d * load(gamma + i, mask), normal, weighted);
    store(dgamma + i, fma(d, normal, load(dgamma + i, mask)), mask);
  });
  const Floats slope = broadcast(lane_sum(weighted) / static_cast<float>(width));
  by_vectors(0, width, [&](std::int64_t i, auto mask) {
    const Floats normal = load(x + i, mask) * rstd;
    const Floats g = load(dy + i, mask) * load(gamma + i, mask);
    store(dx + i, rstd * fnma(normal, slope, g), mask);
  });
}

// Phase 0, by row, computes dx and each slice's dgamma; phase 1, by column, adds those in slice order.
template <typename D>
void backward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t width = s->g.width;
  auto* partial = static_cast<float*>(args.workspace);
  const Range range = range_of(s, phase, slice);
  if (phase == 0) {
    float* own = partial + width * slice;
    for (std::int64_t i = 0; i < width; ++i) own[i] = 0.0f;
    for (std::int64_t r = range.begin; r < range.end; ++r) backward_row<D>(s, args, r, own);
    return;
  }
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    double sum = 0.0;
    for (int from = 0; from < s->slices[0]; ++from) sum += partial[width * from + i];
    f32_out(s, args, 1)[i] = static_cast<float>(sum);
  }
}

}  // namespace

bool prepare_rms_norm(const Problem& problem, Plan& plan) {
  const bool back = problem.op == Op::kRmsNormBackward;
  State* s = new_state(problem, plan, nullptr, Takes::kBF16);
  if (!s || s->g.has_input[back ? 4 : 2]) return false;  // only GPUs sum beside the norm
  plan.run = back ? stored_as(s->g.dy_type, [](auto dy) { return backward<decltype(dy)>; })
                  : stored_as(s->g.y_type, [](auto y) { return forward<decltype(y)>; });
  cut(s, plan, 0, s->g.rows, s->g.count * 8);
  if (back) {
    cut(s, plan, 1, s->g.width, s->g.width * s->slices[0] * 8);
    plan.workspace_bytes = bytes_of(s->slices[0] * s->g.width, sizeof(float));
  }
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
