// Transposes of four-byte elements: contiguous runs are copied, others go in blocks of 16 by 16 through registers.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// The loop along which the input is contiguous.
int run_of(const Loops& loops) {
  for (int i = loops.rank - 1; i >= 0; --i)
    if (loops.a[i] == 1) return i;
  return -1;
}

// Elements are only moved, as floats whatever their type. `outer` walks all loops but the last one and the contiguous
// one.
void transpose_blocks(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Loops& l = s->g.loops;
  const auto* x = static_cast<const float*>(args.inputs[0]);
  auto* y = static_cast<float*>(args.outputs[0]);
  const int run = run_of(l), last = l.rank - 1;
  Loops outer;
  std::int64_t y_step = 1, y_run = 0;
  std::int64_t y_steps[kMaxRank];
  for (int i = last; i >= 0; --i) {
    y_steps[i] = y_step;
    if (i == run) y_run = y_step;
    y_step *= l.size[i];
  }
  for (int i = 0; i < last; ++i) {
    if (i == run) continue;
    outer.size[outer.rank] = l.size[i], outer.a[outer.rank] = l.a[i], outer.b[outer.rank++] = y_steps[i];
  }
  const std::int64_t high = l.size[run], wide = l.size[last], x_step = l.a[last], bands = (high + 15) / 16;
  const Range range = range_of(s, phase, slice);
  for (std::int64_t item = range.begin; item < range.end; ++item) {
    const Place place = place_of(outer, item / bands, outer.rank);
    const std::int64_t i = item % bands * 16;
    for (std::int64_t j = 0; j < wide; j += 16) {
      const float* from = x + place.a + i + j * x_step;
      float* to = y + place.b + i * y_run + j;
      const Mask rows = lanes(high - i), columns = lanes(wide - j);
      Floats block[16];
      for (std::int64_t k = 0; k < 16; ++k) block[k] = j + k < wide ? load(from + k * x_step, rows) : zeros();
      transpose(block);
      for (std::int64_t k = 0; k < 16 && i + k < high; ++k) store(to + k * y_run, block[k], columns);
    }
  }
}

void copy_runs(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const auto* x = static_cast<const float*>(args.inputs[0]);
  auto* y = static_cast<float*>(args.outputs[0]);
  const Range range = elements_of(s, phase, slice, count_of(s->g.loops));
  each_run(s->g.loops, range.begin, range.end, [&](std::int64_t i, Place place, std::int64_t count) {
    by_vectors(0, count, [&](std::int64_t k, auto mask) { store(y + i + k, load(x + place.a + k, mask), mask); });
  });
}

}  // namespace

bool prepare_transpose(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, transpose_blocks);
  if (!s || (s->g.x_type != DType::kF32 && s->g.x_type != DType::kS32)) return false;
  const Loops& l = s->g.loops;
  const int run = run_of(l);
  const std::int64_t count = count_of(l);
  if (run < 0) return false;
  if (run == l.rank - 1) {
    plan.run = copy_runs;
    cut(s, plan, 0, (count + kBlock - 1) / kBlock, count * 8);
    return true;
  }
  std::int64_t items = (l.size[run] + 15) / 16;
  for (int i = 0; i < l.rank - 1; ++i)
    if (i != run) items *= l.size[i];
  cut(s, plan, 0, items, count * 8);
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
