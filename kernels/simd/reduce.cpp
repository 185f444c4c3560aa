// Sums, means, maxima and minima, f32: over contiguous rows, or over many columns side by side. Sums are in double: a
// row's are sixteen partial sums and a fixed tree, columns are summed in order.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

// A reduction has a start, a step that adds one more vector under a mask, and a result for each lane or for all.
template <bool kMean>
struct Adding {
  explicit Adding(std::int64_t terms) : count(static_cast<double>(terms)) {}
  double count;
  Doubles sum = doubles(0.0);
  template <typename M>
  void take(Floats x, M mask) {
    sum = sum + to_doubles(keep(mask, x));
  }
  float finish(double x) const { return static_cast<float>(kMean ? x / count : x); }
  float all() const { return finish(lane_sum(sum)); }
  void each(float* lanes) const {
    double part[16];
    store(part, sum);
    for (int i = 0; i < 16; ++i) lanes[i] = finish(part[i]);
  }
};
template <bool kMax>
struct Selecting {
  explicit Selecting(std::int64_t) {}
  static constexpr float kStart = kMax ? -__builtin_inff() : __builtin_inff();
  Floats best = broadcast(kStart);
  template <typename M>
  void take(Floats x, M mask) {
    x = select(mask, x, broadcast(kStart));
    best = select(ordered(best), kMax ? max(best, x) : min(best, x), best);  // NaN enters as the second, and stays
  }
  float all() const {
    float lanes[16], result = kStart;
    store(lanes, best);
    for (const float lane : lanes)
      if (lane != lane || (kMax ? lane > result : lane < result)) result = result != result ? result : lane;
    return result;
  }
  void each(float* lanes) const { store(lanes, best); }
};

template <typename Body>
void of_rows(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t terms = s->g.inner.size[0];
  float* y = f32_out(s, args, 0);
  const Range range = range_of(s, phase, slice);
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    const float* x = f32_in(s, args, 0) + place_of(s->g.loops, i, s->g.loops.rank).a;
    Body body(terms);
    by_vectors(0, terms, [&](std::int64_t k, auto mask) { body.take(load(x + k, mask), mask); });
    y[i] = body.all();
  }
}

template <typename Body>
void of_columns(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const Loops& inner = s->g.inner;
  const std::int64_t terms = count_of(inner), step = inner.a[inner.rank - 1];
  const float* x = f32_in(s, args, 0);
  float* y = f32_out(s, args, 0);
  const Range range = elements_of(s, phase, slice, count_of(s->g.loops));
  each_run(s->g.loops, range.begin, range.end, [&](std::int64_t i, Place place, std::int64_t count) {
    by_vectors(0, count, [&](std::int64_t column, auto mask) {
      Body body(terms);
      each_run(inner, 0, terms, [&](std::int64_t, Place from, std::int64_t run) {
        const float* at = x + place.a + column + from.a;
        for (std::int64_t k = 0; k < run; ++k) body.take(load(at + k * step, mask), mask);
      });
      float lanes[16];
      body.each(lanes);
      store(y + i + column, load(lanes), mask);
    });
  });
}

template <bool kRows>
Run run_of(Reduction reduction) {
  switch (reduction) {
    case Reduction::kSum:
      return kRows ? of_rows<Adding<false>> : of_columns<Adding<false>>;
    case Reduction::kMean:
      return kRows ? of_rows<Adding<true>> : of_columns<Adding<true>>;
    case Reduction::kMax:
      return kRows ? of_rows<Selecting<true>> : of_columns<Selecting<true>>;
    case Reduction::kMin:
      return kRows ? of_rows<Selecting<false>> : of_columns<Selecting<false>>;
  }
  return nullptr;
}

}  // namespace

bool prepare_reduce(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, run_of<true>(problem.attrs.reduction));
  if (!s) return false;
  const Geometry& g = s->g;
  const std::int64_t results = count_of(g.loops), bytes = results * count_of(g.inner) * 4;
  if (g.inner.rank == 1 && g.inner.a[0] == 1 && g.inner.size[0] > 1) {
    cut(s, plan, 0, results, bytes);
    return true;
  }
  if (g.loops.a[g.loops.rank - 1] != 1) return false;
  plan.run = run_of<false>(problem.attrs.reduction);
  cut(s, plan, 0, (results + kBlock - 1) / kBlock, bytes);
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
