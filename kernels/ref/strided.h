// Strided copies between a tensor and part of another, as loops walk them: transposes and slices. Used by kernels/ref.
#pragma once

#include <cstring>

#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {

// Writes y in order, reading x at the places of operand a.
template <typename T>
void copy_strided(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const auto* x = static_cast<const T*>(args.inputs[0]) + s.g.offset;
  auto* y = static_cast<T*>(args.outputs[0]);
  const std::int64_t step = s.g.loops.a[s.g.loops.rank - 1];
  const Range range = elements_of(&s, phase, slice, count_of(s.g.loops));
  each_run(s.g.loops, range.begin, range.end, [&](std::int64_t i, Place place, std::int64_t count) {
    if (step == 1)
      std::memcpy(y + i, x + place.a, static_cast<std::size_t>(count) * sizeof(T));
    else
      for (std::int64_t k = 0; k < count; ++k) y[i + k] = x[place.a + k * step];
  });
}

inline void cut_strided(State* s, Plan& plan, int phase) {
  const std::int64_t count = count_of(s->g.loops);
  cut(s, plan, phase, (count + kBlock - 1) / kBlock, count * 2 * static_cast<std::int64_t>(size_of(s->g.x_type)));
}

}  // namespace mlx::kernels::ref
