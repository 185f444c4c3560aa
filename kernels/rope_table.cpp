// Tables of rotary positions (rope_table.h).
#include "kernels/rope_table.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace mlx::kernels {

RopeState* new_rope_state(const Problem& problem, Plan& plan, Run run) {
  State* plain = new_state(problem, plan, run);
  if (!plain) return nullptr;
  auto* state = new RopeState;
  static_cast<State&>(*state) = *plain;
  delete plain;
  plan.state = state;
  plan.destroy = [](void* owned) {
    auto* own = static_cast<RopeState*>(owned);
    delete[] own->turns;
    delete own;
  };
  const std::int64_t size = state->g.head, half = size / 2;
  // Without an input of first positions, no position is beyond the sequence's end.
  state->positions = state->g.has_input[1] ? state->g.table : std::min(state->g.table, state->g.time);
  auto* turns = new float[static_cast<std::size_t>(std::max<std::int64_t>(1, state->positions) * size)];
  const double sign = problem.op == Op::kRopeBackward ? -1.0 : 1.0;
  std::vector<double> speed(static_cast<std::size_t>(half));
  for (std::int64_t i = 0; i < half; ++i) {
    speed[static_cast<std::size_t>(i)] =
        std::pow(static_cast<double>(problem.attrs.theta), -2.0 * static_cast<double>(i) / static_cast<double>(size));
  }
  for (std::int64_t p = 0; p < std::max<std::int64_t>(1, state->positions); ++p) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * speed[static_cast<std::size_t>(i)];
      turns[p * size + i] = static_cast<float>(std::cos(angle));
      turns[p * size + half + i] = static_cast<float>(sign * std::sin(angle));
    }
  }
  state->turns = turns;
  return state;
}

}  // namespace mlx::kernels
