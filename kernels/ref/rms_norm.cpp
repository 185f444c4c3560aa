// Reference RMS norm over the last dim (Zhang & Sennrich 2019) and its gradient.
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t width = s.g.width;
  const float* gamma = f32_in(&s, args, 1);
  const Range rows = range_of(&s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const float* x = normed_row(s, args, r, 2);
    double squares = 0.0;
    for (std::int64_t i = 0; i < width; ++i) squares += double{x[i]} * x[i];
    const double rstd = 1.0 / std::sqrt(squares / static_cast<double>(width) + s.attrs.epsilon);
    for (std::int64_t i = 0; i < width; ++i)
      store_real(args.outputs[0], s.g.y_type, r * width + i, x[i] * rstd * gamma[i]);
    if (s.g.has_output[1]) f32_out(&s, args, 1)[r] = static_cast<float>(rstd);
  }
}

// With n = x·rstd and g = dy·gamma: dx = rstd (g - n mean(g n)), dgamma = sum dy n. Phase 0, by row: dx; phase 1, by
// column: dgamma, summed over the rows in order.
void backward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t rows = s.g.rows, width = s.g.width;
  const float *x = f32_in(&s, args, 0), *gamma = f32_in(&s, args, 2);
  const auto dy = [&](std::int64_t i) { return double{load_real(args.inputs[1], s.g.dy_type, i)}; };
  const float *rstd = f32_in(&s, args, 3), *dsum = f32_in(&s, args, 4);
  const auto normal = [&](std::int64_t r, std::int64_t i) { return double{x[r * width + i]} * rstd[r]; };
  const Range range = range_of(&s, phase, slice);
  if (phase == 1) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      double sum = 0.0;
      for (std::int64_t r = 0; r < rows; ++r) sum += dy(r * width + i) * normal(r, i);
      f32_out(&s, args, 1)[i] = static_cast<float>(sum);
    }
    return;
  }
  for (std::int64_t r = range.begin; r < range.end; ++r) {
    double sum = 0.0;
    for (std::int64_t i = 0; i < width; ++i) sum += dy(r * width + i) * gamma[i] * normal(r, i);
    const double slope = sum / static_cast<double>(width);
    for (std::int64_t i = 0; i < width; ++i) {
      const double g = dy(r * width + i) * gamma[i];
      const auto dx = static_cast<float>(rstd[r] * (g - normal(r, i) * slope));
      f32_out(&s, args, 0)[r * width + i] = dsum ? dx + dsum[r * width + i] : dx;
    }
  }
}

}  // namespace

bool prepare_rms_norm(const Problem& problem, Plan& plan) {
  const bool back = problem.op == Op::kRmsNormBackward;
  State* s = new_state(problem, plan, back ? backward : forward, Takes::kHalf);
  if (!s) return false;
  cut(s, plan, 0, s->g.rows, s->g.count * 8);
  if (back) cut(s, plan, 1, s->g.width, s->g.count * 8);
  return true;
}

}  // namespace mlx::kernels::ref
