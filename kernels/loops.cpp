// Building loops (loops.h).
#include "kernels/loops.h"

namespace mlx::kernels {

void steps_of(const Shape& shape, std::int64_t* steps) {
  std::int64_t step = 1;
  for (int i = shape.rank - 1; i >= 0; --i) {
    steps[i] = step;
    step *= shape.dims[static_cast<std::size_t>(i)];
  }
}

void merge(Loops& loops) {
  Loops merged;
  if (count_of(loops) == 0) {
    merged.rank = 1;
    loops = merged;
    return;
  }
  for (int i = 0; i < loops.rank; ++i) {
    if (loops.size[i] == 1) continue;
    int at = merged.rank;
    const bool joins =
        at > 0 && merged.a[at - 1] == loops.size[i] * loops.a[i] && merged.b[at - 1] == loops.size[i] * loops.b[i];
    if (joins)
      merged.size[--at] *= loops.size[i];
    else
      merged.size[at] = loops.size[i], ++merged.rank;
    merged.a[at] = loops.a[i], merged.b[at] = loops.b[i];
  }
  if (merged.rank == 0) merged.rank = 1, merged.size[0] = merged.a[0] = merged.b[0] = 1;
  loops = merged;
}

}  // namespace mlx::kernels
