// Reference linear layer with weights in groups, and its gradient (op_list.h, kLinearGroups).
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {

float round_group(const float* x, std::int64_t size, std::int32_t* out) {
  float largest = 0;
  bool finite = true;
  for (std::int64_t i = 0; i < size; ++i) {
    finite = finite && std::isfinite(x[i]);
    largest = std::fmax(largest, std::fabs(x[i]));
  }
  if (!finite) {
    std::fill_n(out, size, 0);
    return std::nanf("");
  }
  const float inverse = largest >= 0x1p-100f ? 127.0f / largest : 0.0f;
  for (std::int64_t i = 0; i < size; ++i) out[i] = static_cast<std::int32_t>(std::nearbyint(x[i] * inverse));
  return largest / 127.0f;
}

namespace {

std::int32_t weight_at(const State& s, const Args& args, std::int64_t n, std::int64_t k) {
  if (s.g.w_type == DType::kS8) return static_cast<const std::int8_t*>(args.inputs[1])[n * s.g.in_width + k];
  const std::uint8_t pair = static_cast<const std::uint8_t*>(args.inputs[1])[(n * s.g.in_width + k) / 2];
  return (k % 2 == 0 ? pair & 15 : pair >> 4) - 8;
}

void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t k_count = s.g.in_width, n_count = s.g.out_width, size = k_count / s.g.groups;
  const float *x = f32_in(&s, args, 0), *b = f32_in(&s, args, 3);
  const auto* scales = static_cast<const F16*>(args.inputs[2]);
  float* y = f32_out(&s, args, 0);
  const Range rows = range_of(&s, phase, slice);
  std::vector<std::int32_t> rounded(static_cast<std::size_t>(k_count));
  std::vector<float> x_scales(static_cast<std::size_t>(s.g.groups));
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    for (std::int64_t group = 0; group < s.g.groups; ++group)
      x_scales[static_cast<std::size_t>(group)] =
          round_group(x + row * k_count + group * size, size, rounded.data() + group * size);
    for (std::int64_t n = 0; n < n_count; ++n) {
      float value = b ? b[n] : 0.0f;
      for (std::int64_t group = 0; group < s.g.groups; ++group) {
        std::int32_t sum = 0;
        for (std::int64_t k = group * size; k < (group + 1) * size; ++k)
          sum += rounded[static_cast<std::size_t>(k)] * weight_at(s, args, n, k);
        const float scale = widen(scales[group * n_count + n]) * x_scales[static_cast<std::size_t>(group)];
        value = std::fma(static_cast<float>(sum), scale, value);
      }
      y[row * n_count + n] = value;
    }
  }
}

void backward_data(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int64_t k_count = s.g.in_width, n_count = s.g.out_width, size = k_count / s.g.groups;
  const float* dy = f32_in(&s, args, 0);
  const auto* scales = static_cast<const F16*>(args.inputs[2]);
  float* dx = f32_out(&s, args, 0);
  const Range rows = range_of(&s, phase, slice);
  for (std::int64_t row = rows.begin; row < rows.end; ++row)
    for (std::int64_t k = 0; k < k_count; ++k) {
      double sum = 0;
      for (std::int64_t n = 0; n < n_count; ++n)
        sum += double{dy[row * n_count + n]} * widen(scales[k / size * n_count + n]) * weight_at(s, args, n, k);
      dx[row * k_count + k] = static_cast<float>(sum);
    }
}

}  // namespace

bool prepare_linear_groups(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, problem.op == Op::kLinearGroups ? forward : backward_data, Takes::kHalf);
  if (!s) return false;
  cut(s, plan, 0, s->g.rows, s->g.rows * s->g.in_width * s->g.out_width);
  return true;
}

}  // namespace mlx::kernels::ref
