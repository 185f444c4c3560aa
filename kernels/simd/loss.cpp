// Softmax, and softmax cross-entropy against labels or class probabilities, with its gradient; a row's classes in the
// lanes.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// NaN if the row has one.
float largest(const float* row, std::int64_t width) {
  Floats most = broadcast(-__builtin_inff());
  Mask numbers = every();
  by_vectors(0, width, [&](std::int64_t i, auto mask) {
    const Floats x = select(mask, load(row + i, mask), most);
    numbers = numbers & ordered(x);
    most = max(most, x);
  });
  return is_full(numbers) ? lane_max(most) : __builtin_nanf("");
}

// Returns the sum of e^(x - max). Stores the terms in `out` if it is not null.
float exponentials(const float* row, std::int64_t width, float max, float* out) {
  Floats sum = zeros();
  by_vectors(0, width, [&](std::int64_t i, auto mask) {
    const Floats e = exp16(load(row + i, mask) - broadcast(max));
    sum = select(mask, sum + e, sum);
    if (out) store(out + i, e, mask);
  });
  return lane_sum(sum);
}

// row = row * factor - share
void scale_row(float* row, std::int64_t width, float factor, float share) {
  by_vectors(0, width, [&](std::int64_t i, auto mask) {
    const Floats e = load(row + i, mask);
    store(row + i, fms(e, broadcast(factor), broadcast(share)), mask);
  });
}

void softmax(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t width = s->g.width;
  const Range rows = range_of(s, phase, slice);
  for (std::int64_t r = rows.begin; r < rows.end; ++r) {
    float* p = f32_out(s, args, 0) + r * width;
    const float* x = f32_in(s, args, 0) + r * width;
    const float sum = exponentials(x, width, largest(x, width), p);
    scale_row(p, width, 1.0f / sum, 0.0f);
  }
}

bool holds(const float* row, std::int64_t width, float value) {
  bool found = false;
  by_vectors(0, width, [&](std::int64_t i, auto mask) {
    found = found || any(mask & (load(row + i, mask) == broadcast(value)));
  });
  return found;
}

// True if `label` is the first of the largest elements.
bool is_first_largest(const float* row, float max, std::int64_t label) {
  return row[label] == max && !holds(row, label, max);
}

// The index of the first of the largest shares.
std::int64_t label_of(const float* shares, std::int64_t width) {
  const float most = largest(shares, width);
  std::int64_t label = 0;
  while (label + 1 < width && !(shares[label] == most)) ++label;
  return label;
}

double sum_of(const float* row, std::int64_t width) {
  Floats sum = zeros();
  by_vectors(0, width, [&](std::int64_t i, auto mask) { sum = sum + load(row + i, mask); });
  return lane_sum(sum);
}

// The results of phase 0 for one row, used in phase 1.
struct Row {
  double loss;
  std::int64_t correct;
};

void row_of_loss(const State* s, const Args& args, std::int64_t r, std::int64_t counted, Row* out) {
  const std::int64_t width = s->g.width;
  const float* x = f32_in(s, args, 0) + r * width;
  float* dx = s->g.has_output[1] ? f32_out(s, args, 1) + r * width : nullptr;
  const std::int32_t label = s32_in(s, args, 1)[r];
  out->loss = 0.0, out->correct = 0;
  if (label < 0 || label >= width) {
    for (std::int64_t i = 0; dx && i < width; ++i) dx[i] = 0.0f;
    return;
  }
  const float max = largest(x, width), sum = exponentials(x, width, max, dx);
  const double smoothing = s->attrs.rate, share = smoothing / static_cast<double>(width);
  const double log_sum = logarithm(double{sum}) + max;
  out->loss = -(1.0 - smoothing) * (x[label] - log_sum);
  if (smoothing > 0.0) out->loss -= share * (sum_of(x, width) - static_cast<double>(width) * log_sum);
  out->correct = is_first_largest(x, max, label);
  if (!dx) return;
  const double weight = 1.0 / static_cast<double>(counted), target = 1.0 - smoothing + share;
  const double own = (dx[label] / double{sum} - target) * weight;  // in double: cancels if the label is certain
  scale_row(dx, width, static_cast<float>(weight / sum), static_cast<float>(share * weight));
  dx[label] = static_cast<float>(own);
}

void row_of_soft_loss(const State* s, const Args& args, std::int64_t r, std::int64_t counted, Row* out) {
  const std::int64_t width = s->g.width;
  const float *x = f32_in(s, args, 0) + r * width, *t = f32_in(s, args, 1) + r * width;
  float* dx = s->g.has_output[1] ? f32_out(s, args, 1) + r * width : nullptr;
  const float max = largest(x, width), sum = exponentials(x, width, max, dx);
  const Floats kept = broadcast(1.0f - s->attrs.rate), share = broadcast(s->attrs.rate / static_cast<float>(width));
  Floats products = zeros(), targets = zeros();
  by_vectors(0, width, [&](std::int64_t i, auto mask) {
    const Floats target = keep(mask, fma(load(t + i, mask), kept, share));
    products = products + keep(mask, target * (load(x + i, mask) - broadcast(max)));
    targets = targets + target;
  });
  const float all = lane_sum(targets);
  out->loss = double{all} * logarithm(double{sum}) - double{lane_sum(products)};
  out->correct = width > 0 && is_first_largest(x, max, label_of(t, width));
  if (!dx) return;
  const Floats scale_of_e = broadcast(all / sum), weight = broadcast(1.0f / static_cast<float>(counted));
  by_vectors(0, width, [&](std::int64_t i, auto mask) {
    const Floats target = fma(load(t + i, mask), kept, share);
    store(dx + i, fms(load(dx + i, mask), scale_of_e, target) * weight, mask);
  });
}

std::int64_t counted_labels(const State* s, const Args& args) {
  const std::int32_t* labels = s32_in(s, args, 1);
  std::int64_t counted = 0;
  for (std::int64_t r = 0; r < s->g.rows; ++r) counted += labels[r] >= 0 && labels[r] < s->g.width;
  return counted;
}

template <bool kSoft>
void cross_entropy(const void* opaque, const Args& args, int phase, int slice) {
  constexpr auto kRow = kSoft ? row_of_soft_loss : row_of_loss;
  const State* s = state_of(opaque);
  auto* per_row = static_cast<Row*>(args.workspace);
  const std::int64_t counted = kSoft ? s->g.rows : counted_labels(s, args);
  if (phase == 0) {
    const Range rows = range_of(s, phase, slice);
    for (std::int64_t r = rows.begin; r < rows.end; ++r) kRow(s, args, r, counted, per_row + r);
    return;
  }
  double loss = 0.0;
  std::int64_t correct = 0;
  for (std::int64_t r = 0; r < s->g.rows; ++r) loss += per_row[r].loss, correct += per_row[r].correct;
  f32_out(s, args, 0)[0] = counted ? static_cast<float>(loss / static_cast<double>(counted)) : 0.0f;
  if (s->g.has_output[2]) s32_out(s, args, 2)[0] = static_cast<std::int32_t>(correct);
  if (s->g.has_output[3]) s32_out(s, args, 3)[0] = static_cast<std::int32_t>(counted);
}

}  // namespace

bool prepare_loss(const Problem& problem, Plan& plan) {
  if (problem.input_count > 2 && problem.inputs[2].rank >= 0) return false;  // only GPUs take the factor of a loss
  const bool loss = problem.op != Op::kSoftmax, soft = problem.op == Op::kSoftCrossEntropy;
  State* s = new_state(problem, plan, !loss ? softmax : soft ? cross_entropy<true> : cross_entropy<false>);
  if (!s) return false;
  cut(s, plan, 0, s->g.rows, s->g.count * 8);
  if (loss) {
    cut(s, plan, 1, 1, 0);
    plan.workspace_bytes = bytes_of(s->g.rows, sizeof(Row));
  }
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
