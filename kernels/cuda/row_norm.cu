// Norms over the last dim on CUDA, a warp a row: layer norm (Ba, Kiros & Hinton 2016), RMS norm (Zhang & Sennrich
// 2019), and their gradients.
#include "kernels/cuda/cuda.h"

namespace mlx::kernels::cuda {

void run_layer_norm(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const std::int64_t width = s.g.width;
  const float *x = f32_in(&s, args, 0), *gamma = f32_in(&s, args, 1), *beta = f32_in(&s, args, 2);
  const RealsOut y = reals_out(s, args, 0, s.g.y_type);
  float *means = f32_out(&s, args, 1), *rstds = f32_out(&s, args, 2);
  const float epsilon = s.attrs.epsilon, n = static_cast<float>(width);
  each_row(args, s.g.rows, [=] __device__(std::int64_t r, int lane) {
    const float* row = x + r * width;
    float sum = 0.0f, squares = 0.0f;
    for (std::int64_t i = lane; i < width; i += kWarp) sum += row[i];
    const float mean = warp_sum(sum) / n;
    for (std::int64_t i = lane; i < width; i += kWarp) squares += (row[i] - mean) * (row[i] - mean);
    const float rstd = 1.0f / sqrtf(warp_sum(squares) / n + epsilon);
    for (std::int64_t i = lane; i < width; i += kWarp)
      y.store(r * width + i, (row[i] - mean) * rstd * gamma[i] + beta[i]);
    if (lane == 0 && means) means[r] = mean;
    if (lane == 0 && rstds) rstds[r] = rstd;
  });
}

void run_rms_norm(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const std::int64_t width = s.g.width;
  const float *x = f32_in(&s, args, 0), *gamma = f32_in(&s, args, 1);
  const RealsOut y = reals_out(s, args, 0, s.g.y_type);
  float* rstds = f32_out(&s, args, 1);
  const float epsilon = s.attrs.epsilon, n = static_cast<float>(width);
  each_row(args, s.g.rows, [=] __device__(std::int64_t r, int lane) {
    const float* row = x + r * width;
    float squares = 0.0f;
    for (std::int64_t i = lane; i < width; i += kWarp) squares += row[i] * row[i];
    const float rstd = 1.0f / sqrtf(warp_sum(squares) / n + epsilon);
    for (std::int64_t i = lane; i < width; i += kWarp) y.store(r * width + i, row[i] * rstd * gamma[i]);
    if (lane == 0 && rstds) rstds[r] = rstd;
  });
}

// With normal the row normalised and g = dy·gamma: dx = rstd (g - normal mean(g normal)), for layer norm also
// - rstd mean(g). `means` is null for RMS norm.
void backward_of_rows(const State& s, const Args& args, const float* means, const float* rstds) {
  const std::int64_t rows = s.g.rows, width = s.g.width;
  const float *x = f32_in(&s, args, 0), *gamma = f32_in(&s, args, 2);
  const Reals dy = reals_in(s, args, 1, s.g.dy_type);
  float *dx = f32_out(&s, args, 0), *dgamma = f32_out(&s, args, 1), *dbeta = f32_out(&s, args, 2);
  const float n = static_cast<float>(width);
  each_row(args, rows, [=] __device__(std::int64_t r, int lane) {
    const float mean = means ? means[r] : 0.0f, rstd = rstds[r];
    float plain = 0.0f, weighted = 0.0f;
    for (std::int64_t i = lane; i < width; i += kWarp) {
      const float g = dy[r * width + i] * gamma[i];
      plain += g, weighted += g * (x[r * width + i] - mean) * rstd;
    }
    plain = means ? warp_sum(plain) / n : 0.0f;
    weighted = warp_sum(weighted) / n;
    for (std::int64_t i = lane; i < width; i += kWarp) {
      const float g = dy[r * width + i] * gamma[i], normal = (x[r * width + i] - mean) * rstd;
      dx[r * width + i] = rstd * (g - plain - normal * weighted);
    }
  });
  auto* parts = static_cast<Pair*>(args.workspace);
  const auto summed = [=] __device__(std::int64_t r, std::int64_t i) -> Pair {
    const float d = dy[r * width + i];
    return {d, d * (x[r * width + i] - (means ? means[r] : 0.0f)) * rstds[r]};
  };
  sum_columns(args, rows, width, summed, parts);
  const std::int64_t count = row_parts(rows);
  each(args, width, [=] __device__(std::int64_t i) {
    const Sums sums = column_of(parts, count, width, i);
    dgamma[i] = static_cast<float>(sums.second);
    if (dbeta) dbeta[i] = static_cast<float>(sums.first);
  });
}

void run_layer_norm_backward(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  backward_of_rows(s, args, f32_in(&s, args, 3), f32_in(&s, args, 4));
}
void run_rms_norm_backward(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  backward_of_rows(s, args, nullptr, f32_in(&s, args, 3));
}

static bool prepare_rows(const Problem& problem, Plan& plan, bool back, Run run) {
  const State* s = new_state(problem, plan, run, Takes::kHalf);
  if (!s) return false;
  if (back) plan.workspace_bytes = column_bytes(s->g.rows, s->g.width);
  return true;
}

bool prepare_layer_norm(const Problem& problem, Plan& plan) {
  const bool back = problem.op == Op::kLayerNormBackward;
  return prepare_rows(problem, plan, back, back ? run_layer_norm_backward : run_layer_norm);
}
bool prepare_rms_norm(const Problem& problem, Plan& plan) {
  const bool back = problem.op == Op::kRmsNormBackward;
  return prepare_rows(problem, plan, back, back ? run_rms_norm_backward : run_rms_norm);
}

}  // namespace mlx::kernels::cuda
