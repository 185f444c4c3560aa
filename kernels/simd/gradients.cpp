// Kernels between backward and update: running sums, norms, and the direction that Muon orthogonalises. Squares are
// added in double in sixteen lanes, slice after slice.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

void accumulate(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const float *sum = f32_in(s, args, 0), *x = f32_in(s, args, 1), *factors = f32_in(s, args, 2);
  float* out = f32_out(s, args, 0);
  const Floats keep = broadcast(factors[0]), take = broadcast(factors[1]);
  const Mask read = factors[0] == 0.0f ? none() : every();
  const Range range = elements_of(s, phase, slice, s->g.count);
  by_vectors(range.begin, range.end, [&](std::int64_t i, auto mask) {
    const Floats kept = load(sum + i, mask & read);
    const Floats taken = take * load(x + i, mask);
    store(out + i, fma(keep, kept, taken), mask);
  });
}

// Sixteen running sums, in double, of the squares of the inputs.
struct Squares {
  Doubles sums = doubles(0.0);
  void add(Floats x) {
    const Doubles wide = to_doubles(x);
    sums = fma(wide, wide, sums);
  }
  double total() const { return lane_sum(sums); }
};

double total(const State* s, const Args& args) {
  double sum = 0.0;
  for (int slice = 0; slice < s->slices[0]; ++slice) sum += static_cast<const double*>(args.workspace)[slice];
  return sum;
}

void norm(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  if (phase == 1) {
    const double before = s->g.has_input[1] ? f32_in(s, args, 1)[0] : 0.0;
    f32_out(s, args, 0)[0] = static_cast<float>(sqrt(before * before + total(s, args)));
    return;
  }
  const float* x = f32_in(s, args, 0);
  const Range range = elements_of(s, phase, slice, s->g.count);
  Squares squares;
  by_vectors(range.begin, range.end, [&](std::int64_t i, auto mask) { squares.add(load(x + i, mask)); });
  static_cast<double*>(args.workspace)[slice] = squares.total();
}

constexpr double kLeastNorm = 1e-7;  // avoids a division by zero for a zero gradient

void muon_direction(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  float *velocity_out = f32_out(s, args, 0), *x = f32_out(s, args, 1);
  const Range range = elements_of(s, phase, slice, s->g.count);
  if (phase == 1) {
    const Floats scale = broadcast(static_cast<float>(1.0 / (sqrt(total(s, args)) + kLeastNorm)));
    by_vectors(range.begin, range.end,
               [&](std::int64_t i, auto mask) { store(x + i, scale * load(x + i, mask), mask); });
    return;
  }
  const float *dw = f32_in(s, args, 0), *velocity = f32_in(s, args, 1), *factor = f32_in(s, args, 2);
  if (factor && factor[0] != factor[0]) {  // the step is skipped
    by_vectors(range.begin, range.end, [&](std::int64_t i, auto mask) { store(x + i, zeros(), mask); });
    static_cast<double*>(args.workspace)[slice] = 0.0;
    return;
  }
  const Floats scale = broadcast(factor ? factor[0] : 1.0f);
  const Floats momentum = broadcast(s->attrs.momentum);
  Squares squares;
  by_vectors(range.begin, range.end, [&](std::int64_t i, auto mask) {
    const Floats gradient = scale * load(dw + i, mask);
    const Floats moved = fma(momentum, load(velocity + i, mask), gradient);
    const Floats direction = s->attrs.nesterov ? fma(momentum, moved, gradient) : moved;
    store(velocity_out + i, moved, mask);
    store(x + i, direction, mask);
    squares.add(direction);
  });
  static_cast<double*>(args.workspace)[slice] = squares.total();
}

}  // namespace

bool prepare_gradients(const Problem& problem, Plan& plan) {
  Run run = accumulate;
  if (problem.op == Op::kNorm) run = norm;
  if (problem.op == Op::kMuonDirection) run = muon_direction;
  State* s = new_state(problem, plan, run);
  if (!s) return false;
  const std::int64_t blocks = (s->g.count + kBlock - 1) / kBlock;
  cut(s, plan, 0, blocks, s->g.count * 8);
  if (problem.op == Op::kAccumulate) return true;
  cut(s, plan, 1, problem.op == Op::kNorm ? 1 : blocks, problem.op == Op::kNorm ? 0 : s->g.count * 8);
  plan.workspace_bytes = bytes_of(s->slices[0], sizeof(double));
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
