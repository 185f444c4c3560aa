// Reference layer norm over the last dim (Ba, Kiros & Hinton 2016) and its gradient.
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t width = s.g.width;
  const float *gamma = f32_in(&s, args, 1), *beta = f32_in(&s, args, 2);
  const Range rows = range_of(&s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const float* x = normed_row(s, args, r, 3);
    double sum = 0.0, squares = 0.0;
    for (std::int64_t i = 0; i < width; ++i) sum += x[i];
    const double mean = sum / static_cast<double>(width);
    for (std::int64_t i = 0; i < width; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double rstd = 1.0 / std::sqrt(squares / static_cast<double>(width) + s.attrs.epsilon);
    for (std::int64_t i = 0; i < width; ++i)
      store_real(args.outputs[0], s.g.y_type, r * width + i, (x[i] - mean) * rstd * gamma[i] + beta[i]);
    if (s.g.has_output[1]) f32_out(&s, args, 1)[r] = static_cast<float>(mean);
    if (s.g.has_output[2]) f32_out(&s, args, 2)[r] = static_cast<float>(rstd);
  }
}

// Phase 0, by row: dx; phase 1, by column: dgamma and dbeta, summed over the rows in order.
void backward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t rows = s.g.rows, width = s.g.width;
  const float *x = f32_in(&s, args, 0), *gamma = f32_in(&s, args, 2);
  const auto dy = [&](std::int64_t i) { return double{load_real(args.inputs[1], s.g.dy_type, i)}; };
  const float *mean = f32_in(&s, args, 3), *rstd = f32_in(&s, args, 4), *dsum = f32_in(&s, args, 5);
  const auto normal = [&](std::int64_t r, std::int64_t i) { return (double{x[r * width + i]} - mean[r]) * rstd[r]; };
  const Range range = range_of(&s, phase, slice);
  if (phase == 1) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      double plain = 0.0, weighted = 0.0;
      for (std::int64_t r = 0; r < rows; ++r) {
        plain += dy(r * width + i);
        weighted += dy(r * width + i) * normal(r, i);
      }
      f32_out(&s, args, 1)[i] = static_cast<float>(weighted);
      f32_out(&s, args, 2)[i] = static_cast<float>(plain);
    }
    return;
  }
  const double n = static_cast<double>(width);
  for (std::int64_t r = range.begin; r < range.end; ++r) {
    double plain = 0.0, weighted = 0.0;
    for (std::int64_t i = 0; i < width; ++i) {
      const double d = dy(r * width + i) * gamma[i];
      plain += d, weighted += d * normal(r, i);
    }
    for (std::int64_t i = 0; i < width; ++i) {
      const double d = dy(r * width + i) * gamma[i];
      const auto dx = static_cast<float>(rstd[r] * (d - plain / n - normal(r, i) * weighted / n));
      f32_out(&s, args, 0)[r * width + i] = dsum ? dx + dsum[r * width + i] : dx;
    }
  }
}

}  // namespace

bool prepare_layer_norm(const Problem& problem, Plan& plan) {
  const bool back = problem.op == Op::kLayerNormBackward;
  State* s = new_state(problem, plan, back ? backward : forward, Takes::kHalf);
  if (!s) return false;
  cut(s, plan, 0, s->g.rows, s->g.count * 8);
  if (back) cut(s, plan, 1, s->g.width, s->g.count * 8);
  return true;
}

}  // namespace mlx::kernels::ref
