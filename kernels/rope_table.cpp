// Tables of rotary positions (rope_table.h).
#include "kernels/rope_table.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <map>
#include <memory>
#include <mutex>
#include <numbers>
#include <vector>

namespace mlx::kernels {
namespace {

// All that a table depends on.
struct TurnsKey {
  float theta, slow, long_low, long_high, ramp_begin, ramp_end;
  std::int64_t long_context, size, positions;
  bool backward;
  auto operator<=>(const TurnsKey&) const = default;
};
using Turns = std::shared_ptr<const std::vector<float>>;

TurnsKey key_of(const Problem& problem, std::int64_t size, std::int64_t positions) {
  const Attrs& attrs = problem.attrs;
  const bool backward = problem.op == Op::kRopeBackward;
  TurnsKey key{attrs.theta, attrs.slow, 0, 0, attrs.ramp_begin, attrs.ramp_end, 0, size, positions, backward};
  if (attrs.long_context != 0)
    key.long_low = attrs.long_low, key.long_high = attrs.long_high, key.long_context = attrs.long_context;
  return key;
}

// Of pair i.
double slowed(double frequency, std::int64_t i, const TurnsKey& key) {
  if (key.ramp_end > 0) {
    const double begin = key.ramp_begin, end = key.ramp_end;
    const double part = std::clamp((static_cast<double>(i) - begin) / (end - begin), 0., 1.);
    return part * frequency / double{key.slow} + (1 - part) * frequency;
  }
  if (key.long_context == 0) return frequency / double{key.slow};
  const double turns = static_cast<double>(key.long_context) * frequency / (2 * std::numbers::pi);
  const double kept =
      std::clamp((turns - double{key.long_low}) / (double{key.long_high} - double{key.long_low}), 0., 1.);
  return (1 - kept) * frequency / double{key.slow} + kept * frequency;
}

Turns make_turns(const TurnsKey& key) {
  const std::int64_t half = key.size / 2, rows = std::max<std::int64_t>(1, key.positions);
  std::vector<double> speed(static_cast<std::size_t>(half));
  for (std::int64_t i = 0; i < half; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(key.size);
    speed[static_cast<std::size_t>(i)] = slowed(std::pow(double{key.theta}, exponent), i, key);
  }
  const double sign = key.backward ? -1.0 : 1.0;
  std::vector<float> turns(static_cast<std::size_t>(rows * key.size));
  for (std::int64_t p = 0; p < rows; ++p) {
    float* const row = turns.data() + p * key.size;
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(p) * speed[static_cast<std::size_t>(i)];
      row[i] = static_cast<float>(std::cos(angle));
      row[half + i] = static_cast<float>(sign * std::sin(angle));
    }
  }
  return std::make_shared<const std::vector<float>>(std::move(turns));
}

// The layers of a model, and its sessions, have one table: with a long context it is larger than a layer's weights.
Turns turns_for(const TurnsKey& key) {
  static std::mutex mutex;
  static auto* const made = new std::map<TurnsKey, std::weak_ptr<const std::vector<float>>>;
  const std::scoped_lock lock(mutex);
  std::erase_if(*made, [](const auto& each) { return each.second.expired(); });
  std::weak_ptr<const std::vector<float>>& place = (*made)[key];
  Turns turns = place.lock();
  if (!turns) place = turns = make_turns(key);
  return turns;
}

}  // namespace

bool sane_turns(const Attrs& attrs) {
  const bool slows = attrs.slow >= 1 && std::isfinite(attrs.slow) && attrs.long_context >= 0;
  const bool ramps = attrs.ramp_end == 0 || (attrs.ramp_begin >= 0 && attrs.ramp_begin < attrs.ramp_end &&
                                             std::isfinite(attrs.ramp_end) && attrs.long_context == 0);
  return slows && ramps && (attrs.long_context == 0 || (attrs.long_low >= 0 && attrs.long_low < attrs.long_high));
}

void drop_turns(RopeState& state) {
  delete static_cast<const Turns*>(state.shared);
  state.shared = nullptr, state.turns = nullptr;
}

RopeState* new_rope_state(const Problem& problem, Plan& plan, Run run) {
  State* plain = new_state(problem, plan, run);
  if (!plain) return nullptr;
  auto* state = new RopeState;
  static_cast<State&>(*state) = *plain;
  delete plain;
  plan.state = state;
  plan.destroy = [](void* owned) {
    auto* own = static_cast<RopeState*>(owned);
    drop_turns(*own);
    delete own;
  };
  // Without an input of first positions, no position is beyond the sequence's end.
  state->positions = state->g.has_input[1] ? state->g.table : std::min(state->g.table, state->g.time);
  auto* const turns = new Turns(turns_for(key_of(problem, state->g.head, state->positions)));
  state->shared = turns;
  state->turns = (*turns)->data();
  return state;
}

}  // namespace mlx::kernels
