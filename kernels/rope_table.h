// The cosines and sines of rotary positions (Su et al. 2021), computed once when a kernel is prepared. Used by the rope
// kernels of ref and simd. Plain data, so that code of any instruction set can read it.
#pragma once

#include "kernels/plan.h"

namespace mlx::kernels {

struct RopeState : State {
  // Row p: cosines of p · f for i in 0 … d/2-1, then their sines, with f = theta^(-2i/d) / slow. If there is a
  // long_context C, a pair is slowed by how often it turns in C positions, n = C f / 2π before slowing: fully if n is
  // below long_low, not at all from long_high, in between f is interpolated linearly in n (Llama 3.1). If there is a
  // ramp_end, a pair is slowed by its place: not at all up to ramp_begin, fully from ramp_end on, in between linearly
  // in i (YaRN, Peng et al. 2023). Angles are computed in double; the sines are negated for the backward rotation. Row
  // 0 rotates nothing.
  const float* turns = nullptr;
  std::int64_t positions = 0;    // number of rows; positions outside are not rotated
  const void* shared = nullptr;  // owns `turns`, which all layers of a model have in common
};

// The attributes above are usable: slow is at least 1, long_low is below long_high, ramp_begin below ramp_end.
bool sane_turns(const Attrs& attrs);
// Owned by `plan` afterwards. Null if the problem is inconsistent.
RopeState* new_rope_state(const Problem& problem, Plan& plan, Run run);
// Lets go of the table; for a device that has a copy.
void drop_turns(RopeState& state);

// The row of turns for row `r` of [B·T], counted from the sequence's first position.
static inline const float* turns_of(const RopeState* s, const std::int32_t* first, std::int64_t r) {
  const std::int64_t position = (first ? first[r / s->g.time] : 0) + r % s->g.time;
  return s->turns + (position >= 0 && position < s->positions ? position : 0) * s->g.head;
}

}  // namespace mlx::kernels
