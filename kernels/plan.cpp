// State of hand-written kernels and the slicing rule (plan.h).
#include "kernels/plan.h"

#include <algorithm>

namespace mlx::kernels {
namespace {

constexpr std::int64_t kMaxSlices = 16;
constexpr std::int64_t kSliceBytes = 32 * 1024;

bool has_weights(Op op) {
  return op == Op::kLinear || op == Op::kLinearBackwardData || op == Op::kConv2d || op == Op::kConv2dBackwardData;
}

bool is_taken(const Problem& problem, const Geometry& geometry, Takes takes) {
  if (takes == Takes::kHalf) return true;
  if (has_dtype(problem, DType::kF16)) return false;
  if (takes == Takes::kF32) return !has_dtype(problem, DType::kBF16);
  return !(has_weights(problem.op) && geometry.w_type == DType::kBF16);
}

}  // namespace

State* new_state(const Problem& problem, Plan& plan, Run run, Takes takes) {
  Geometry geometry;
  if (!describe(problem, geometry).empty()) return nullptr;
  if (!is_taken(problem, geometry, takes)) return nullptr;
  auto* state = new State{problem.attrs, geometry, {}, {}};
  for (int phase = 0; phase < kMaxPhases; ++phase) {
    state->items[phase] = 1;
    state->slices[phase] = 1;
  }
  plan.state = state;
  plan.run = run;
  plan.destroy = [](void* owned) { delete static_cast<State*>(owned); };
  return state;
}

void cut(State* state, Plan& plan, int phase, std::int64_t items, std::int64_t bytes) {
  const std::int64_t wanted = std::clamp<std::int64_t>(bytes / kSliceBytes, 1, kMaxSlices);
  state->items[phase] = items;
  state->slices[phase] = static_cast<int>(std::max<std::int64_t>(1, std::min(wanted, items)));
  plan.slices[static_cast<std::size_t>(phase)] = state->slices[phase];
  plan.phases = std::max(plan.phases, phase + 1);
}

}  // namespace mlx::kernels
