// AVX-512 kernels for what happens to gradients between backward and update: running sums, norms, and the direction
// that Muon orthogonalises. Squares are added in double, sixteen lanes wide, slice after slice.
#include <math.h>

#include "kernels/avx512/lanes.h"

namespace mlx::kernels::avx512 {
namespace {

void accumulate(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const float *sum = f32_in(s, args, 0), *x = f32_in(s, args, 1), *factors = f32_in(s, args, 2);
  float* out = f32_out(s, args, 0);
  const __m512 keep = _mm512_set1_ps(factors[0]), take = _mm512_set1_ps(factors[1]);
  const __mmask16 read = factors[0] == 0.0f ? __mmask16{0} : __mmask16{0xffff};
  const Range range = elements_of(s, phase, slice, s->g.count);
  for (std::int64_t i = range.begin; i < range.end; i += 16) {
    const __mmask16 mask = lanes(range.end - i);
    const __m512 kept = _mm512_maskz_loadu_ps(mask & read, sum + i);
    const __m512 taken = _mm512_mul_ps(take, _mm512_maskz_loadu_ps(mask, x + i));
    _mm512_mask_storeu_ps(out + i, mask, _mm512_fmadd_ps(keep, kept, taken));
  }
}

// Sixteen running sums in double of the squares of what it is given.
struct Squares {
  __m512d low = _mm512_setzero_pd(), high = _mm512_setzero_pd();
  void add(__m512 x) {
    const __m512d a = _mm512_cvtps_pd(_mm512_castps512_ps256(x)), b = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
    low = _mm512_fmadd_pd(a, a, low);
    high = _mm512_fmadd_pd(b, b, high);
  }
  double total() const { return _mm512_reduce_add_pd(_mm512_add_pd(low, high)); }
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
  for (std::int64_t i = range.begin; i < range.end; i += 16)
    squares.add(_mm512_maskz_loadu_ps(lanes(range.end - i), x + i));
  static_cast<double*>(args.workspace)[slice] = squares.total();
}

constexpr double kLeastNorm = 1e-7;  // added, so that a gradient of zeros stays one

void muon_direction(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  float *velocity_out = f32_out(s, args, 0), *x = f32_out(s, args, 1);
  const Range range = elements_of(s, phase, slice, s->g.count);
  if (phase == 1) {
    const __m512 scale = _mm512_set1_ps(static_cast<float>(1.0 / (sqrt(total(s, args)) + kLeastNorm)));
    for (std::int64_t i = range.begin; i < range.end; i += 16) {
      const __mmask16 mask = lanes(range.end - i);
      _mm512_mask_storeu_ps(x + i, mask, _mm512_mul_ps(scale, _mm512_maskz_loadu_ps(mask, x + i)));
    }
    return;
  }
  const float *dw = f32_in(s, args, 0), *velocity = f32_in(s, args, 1), *all = f32_in(s, args, 2);
  const __m512 clipped = _mm512_set1_ps(all && all[0] > s->attrs.clip ? s->attrs.clip / all[0] : 1.0f);
  const __m512 momentum = _mm512_set1_ps(s->attrs.momentum);
  Squares squares;
  for (std::int64_t i = range.begin; i < range.end; i += 16) {
    const __mmask16 mask = lanes(range.end - i);
    const __m512 gradient = _mm512_mul_ps(clipped, _mm512_maskz_loadu_ps(mask, dw + i));
    const __m512 moved = _mm512_fmadd_ps(momentum, _mm512_maskz_loadu_ps(mask, velocity + i), gradient);
    const __m512 direction = s->attrs.nesterov ? _mm512_fmadd_ps(momentum, moved, gradient) : moved;
    _mm512_mask_storeu_ps(velocity_out + i, mask, moved);
    _mm512_mask_storeu_ps(x + i, mask, direction);
    squares.add(direction);
  }
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

}  // namespace mlx::kernels::avx512
