// The cosines and sines of rotary positions (Su et al. 2021), computed once when a kernel is prepared. Used by the rope
// kernels of ref and simd. Plain data, so that code of any instruction set can read it.
#pragma once

#include "kernels/plan.h"

namespace mlx::kernels {

struct RopeState : State {
  // Row p: cosines of p · theta^(-2i/d) for i in 0 … d/2-1, then their sines. Angles are computed in double; the sines
  // are negated for the backward rotation. Row 0 rotates nothing.
  const float* turns = nullptr;
  std::int64_t positions = 0;  // number of rows; positions outside are not rotated
};

// Owned by `plan` afterwards. Null if the problem is inconsistent.
RopeState* new_rope_state(const Problem& problem, Plan& plan, Run run);

// The row of turns for row `r` of [B·T], counted from the sequence's first position.
static inline const float* turns_of(const RopeState* s, const std::int32_t* first, std::int64_t r) {
  const std::int64_t position = (first ? first[r / s->g.time] : 0) + r % s->g.time;
  return s->turns + (position >= 0 && position < s->positions ? position : 0) * s->g.head;
}

}  // namespace mlx::kernels
