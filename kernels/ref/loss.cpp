// Reference softmax and softmax cross-entropy over the last dim, with its gradient (op_list.h).
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

// A row of numbers read as f32, whatever type stores them.
struct RealRow {
  const void* data;
  DType type;
  std::int64_t begin;
  float operator[](std::int64_t i) const { return load_real(data, type, begin + i); }
};
RealRow row_in(const State& s, const Args& args, int input, DType type, std::int64_t r) {
  return {args.inputs[input], type, r * s.g.width};
}

double largest(const RealRow& row, std::int64_t width) {
  double max = row[0];
  for (std::int64_t i = 1; i < width; ++i)
    if (row[i] > max || row[i] != row[i]) max = row[i];
  return max;
}
double sum_of_exp(const RealRow& row, std::int64_t width, double max) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < width; ++i) sum += std::exp(row[i] - max);
  return sum;
}

void softmax(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const Range rows = range_of(&s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    const RealRow x = row_in(s, args, 0, DType::kF32, r);
    float* p = f32_out(&s, args, 0) + r * s.g.width;
    if (s.g.width == 0) continue;
    const double max = largest(x, s.g.width), sum = sum_of_exp(x, s.g.width, max);
    for (std::int64_t i = 0; i < s.g.width; ++i) p[i] = static_cast<float>(std::exp(x[i] - max) / sum);
  }
}

bool counts(const State& s, std::int32_t label) {
  return label >= 0 && label < s.g.width;
}

// The results of phase 0 for one row, used in phase 1.
struct Row {
  double loss;
  std::int64_t correct;
};

// Stores element i of a row's gradient of the mean loss, if the gradient is wanted.
void store_gradient(const State& s, const Args& args, std::int64_t r, std::int64_t i, double value) {
  if (!s.g.has_output[1]) return;
  store_real(args.outputs[1], s.g.gradient_type, r * s.g.width + i, factor_of_loss(s, args) * value);
}

void row_of_loss(const State& s, const Args& args, std::int64_t r, std::int64_t counted, Row& out) {
  const std::int64_t width = s.g.width;
  const RealRow x = row_in(s, args, 0, s.g.x_type, r);
  const std::int32_t label = s32_in(&s, args, 1)[r];
  out = {0.0, 0};
  if (!counts(s, label)) {
    for (std::int64_t i = 0; s.g.has_output[1] && i < width; ++i)
      store_real(args.outputs[1], s.g.gradient_type, r * width + i, 0.0);
    return;
  }
  const double max = largest(x, width), sum = sum_of_exp(x, width, max), log_sum = std::log(sum) + max;
  const double smoothing = s.attrs.rate, share = smoothing / static_cast<double>(width);
  double total = 0.0;
  std::int64_t best = 0;
  for (std::int64_t i = 0; i < width; ++i) {
    total += x[i] - log_sum;
    if (x[i] > x[best]) best = i;
    const double target = (i == label ? 1.0 - smoothing : 0.0) + share;
    store_gradient(s, args, r, i, (std::exp(x[i] - max) / sum - target) / static_cast<double>(counted));
  }
  out.loss = -(1.0 - smoothing) * (x[label] - log_sum) - (smoothing > 0.0 ? share * total : 0.0);
  out.correct = best == label && max == max;
}

std::int64_t first_largest(const RealRow& row, std::int64_t width) {
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < width; ++i) {
    if (row[i] > row[best]) best = i;
  }
  return best;
}

void row_of_soft_loss(const State& s, const Args& args, std::int64_t r, Row& out) {
  const std::int64_t width = s.g.width;
  const RealRow x = row_in(s, args, 0, s.g.x_type, r), t = row_in(s, args, 1, DType::kF32, r);
  const double max = largest(x, width), sum = sum_of_exp(x, width, max), log_sum = std::log(sum) + max;
  const double smoothing = s.attrs.rate, share = smoothing / static_cast<double>(width);
  const auto target = [&](std::int64_t i) { return (1.0 - smoothing) * t[i] + share; };
  double loss = 0.0, all = 0.0;
  for (std::int64_t i = 0; i < width; ++i) loss -= target(i) * (x[i] - log_sum), all += target(i);
  for (std::int64_t i = 0; i < width; ++i)
    store_gradient(s, args, r, i, (all * std::exp(x[i] - max) / sum - target(i)) / static_cast<double>(s.g.rows));
  out = {loss, width > 0 && max == max && first_largest(x, width) == first_largest(t, width)};
}

// The batch's loss, over the `counted` rows, and the number of correct rows.
void sum_rows(const State& s, const Args& args, const Row* per_row, std::int64_t counted) {
  double loss = 0.0;
  std::int64_t correct = 0;
  for (std::int64_t r = 0; r < s.g.rows; ++r) loss += per_row[r].loss, correct += per_row[r].correct;
  f32_out(&s, args, 0)[0] = counted ? static_cast<float>(loss / static_cast<double>(counted)) : 0.0f;
  if (s.g.has_output[2]) s32_out(&s, args, 2)[0] = static_cast<std::int32_t>(correct);
  if (s.g.has_output[3]) s32_out(&s, args, 3)[0] = static_cast<std::int32_t>(counted);
}

void soft_cross_entropy(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  auto* per_row = static_cast<Row*>(args.workspace);
  if (phase == 0) {
    const Range rows = range_of(&s, phase, slice);
    for (std::int64_t r = rows.begin; r < rows.end; ++r) row_of_soft_loss(s, args, r, per_row[r]);
    return;
  }
  sum_rows(s, args, per_row, s.g.rows);
}

void cross_entropy(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  auto* per_row = static_cast<Row*>(args.workspace);
  std::int64_t counted = 0;
  for (std::int64_t r = 0; r < s.g.rows; ++r) counted += counts(s, s32_in(&s, args, 1)[r]);
  if (phase == 0) {
    const Range rows = range_of(&s, phase, slice);
    for (std::int64_t r = rows.begin; r < rows.end; ++r) row_of_loss(s, args, r, counted, per_row[r]);
    return;
  }
  sum_rows(s, args, per_row, counted);
}

}  // namespace

bool prepare_loss(const Problem& problem, Plan& plan) {
  const bool loss = problem.op != Op::kSoftmax;
  const Run run = !loss ? softmax : problem.op == Op::kSoftCrossEntropy ? soft_cross_entropy : cross_entropy;
  State* s = new_state(problem, plan, run, Takes::kHalf);
  if (!s) return false;
  cut(s, plan, 0, s->g.rows, s->g.count * 8);
  if (loss) {
    cut(s, plan, 1, 1, 0);
    plan.workspace_bytes = sizeof(Row) * static_cast<std::size_t>(s->g.rows);
  }
  return true;
}

}  // namespace mlx::kernels::ref
