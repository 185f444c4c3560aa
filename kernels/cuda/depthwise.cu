// Convolution with a group for each channel and one output a channel on CUDA, and its gradients: one thread an element,
// channels side by side; bound by memory, so without shared tiles.
#include "kernels/cuda/product.h"

namespace mlx::kernels::cuda {

void run_depthwise(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const Geometry g = s.g;
  const Reals x = reals_in(s, args, 0, g.x_type);
  const Weights w = weights_in(s, args);
  const Epilogue epilogue = epilogue_of(s, args);
  each(args, g.n * g.oh * g.ow * g.c, [=] __device__(std::int64_t i) {
    const std::int64_t c = i % g.c, m = i / g.c;
    const std::int64_t top = m / g.ow % g.oh * g.sh - g.pt, left = m % g.ow * g.sw - g.pl, n = m / g.ow / g.oh;
    float sum = 0.0f;
    for (std::int64_t kh = 0; kh < g.kh; ++kh)
      for (std::int64_t kw = 0; kw < g.kw; ++kw) {
        const std::int64_t ih = top + kh, iw = left + kw;
        if (ih < 0 || ih >= g.h || iw < 0 || iw >= g.w) continue;
        sum += x[((n * g.h + ih) * g.w + iw) * g.c + c] * w[(c * g.kh + kh) * g.kw + kw];
      }
    epilogue.store(i, c, sum);
  });
}

void run_depthwise_backward_data(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const Geometry g = s.g;
  const Reals dy = reals_in(s, args, 0, g.x_type);
  const Weights w = weights_in(s, args);
  const RealsOut dx = reals_out(s, args, 0, g.y_type);
  each(args, g.n * g.h * g.w * g.c, [=] __device__(std::int64_t i) {
    const std::int64_t c = i % g.c, m = i / g.c, n = m / g.w / g.h;
    float sum = 0.0f;
    for (std::int64_t kh = 0; kh < g.kh; ++kh)
      for (std::int64_t kw = 0; kw < g.kw; ++kw) {
        const std::int64_t h = m / g.w % g.h + g.pt - kh, v = m % g.w + g.pl - kw;
        if (h < 0 || v < 0 || h % g.sh != 0 || v % g.sw != 0 || h / g.sh >= g.oh || v / g.sw >= g.ow) continue;
        sum += dy[((n * g.oh + h / g.sh) * g.ow + v / g.sw) * g.c + c] * w[(c * g.kh + kh) * g.kw + kw];
      }
    dx.store(i, sum);
  });
}

// One tap after another: dw[c, tap] is the sum of a column over all outputs.
void run_depthwise_backward_weights(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const Geometry g = s.g;
  const Reals x = reals_in(s, args, 0, g.x_type), dy = reals_in(s, args, 1, g.x_type);
  float *dw = f32_out(&s, args, 0), *db = f32_out(&s, args, 1);
  const std::int64_t rows = g.n * g.oh * g.ow, taps = g.kh * g.kw, count = row_parts(rows);
  auto* parts = static_cast<Pair*>(args.workspace);
  for (std::int64_t at = 0; at < taps; ++at) {
    const auto element = [=] __device__(std::int64_t m, std::int64_t c) -> Pair {
      const float d = dy[m * g.c + c];
      const std::int64_t ih = m / g.ow % g.oh * g.sh - g.pt + at / g.kw, iw = m % g.ow * g.sw - g.pl + at % g.kw;
      const bool inside = ih >= 0 && ih < g.h && iw >= 0 && iw < g.w;
      return {inside ? d * x[((m / g.ow / g.oh * g.h + ih) * g.w + iw) * g.c + c] : 0.0f, d};
    };
    sum_columns(args, rows, g.c, element, parts);
    float* own_db = at == 0 ? db : nullptr;
    each(args, g.c, [=] __device__(std::int64_t c) {
      const Sums sums = column_of(parts, count, g.c, c);
      dw[c * taps + at] = static_cast<float>(sums.first);
      if (own_db) own_db[c] = static_cast<float>(sums.second);
    });
  }
}

bool prepare_depthwise(const Problem& problem, Plan& plan) {
  const Run run = problem.op == Op::kConv2d               ? run_depthwise
                  : problem.op == Op::kConv2dBackwardData ? run_depthwise_backward_data
                                                          : run_depthwise_backward_weights;
  const State* s = new_state(problem, plan, run, Takes::kHalf);
  if (!s || s->g.quantized || s->g.groups < 2 || s->g.groups != s->g.c || s->g.o != s->g.c) return false;
  if (problem.op == Op::kConv2dBackwardWeights) plan.workspace_bytes = column_bytes(s->g.n * s->g.oh * s->g.ow, s->g.c);
  return true;
}

}  // namespace mlx::kernels::cuda
