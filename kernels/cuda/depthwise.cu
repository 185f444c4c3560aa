// Convolution with one group and one output for each channel on CUDA, and its gradients. One thread per element,
// channels adjacent. Memory-bound, so it needs no shared tiles.
#include "kernels/cuda/index.h"
#include "kernels/cuda/product.h"

namespace mlx::kernels::cuda {

void run_depthwise(const void* state, const Args& args, int, int) {
  const State& s = state_of(state);
  const Geometry g = s.g;
  const Reals x = reals_in(s, args, 0, g.x_type);
  const Weights w = weights_in(s, args);
  const Epilogue epilogue = epilogue_of(s, args);
  const PixelIndex pixels(g.oh, g.ow);
  const Windows windows(g);
  each(args, g.n * g.oh * g.ow * g.c, [=] __device__(std::int64_t i) {
    const std::int64_t c = i % g.c;
    const Pixel out = pixels[static_cast<int>(i / g.c)];
    float sum = 0.0f;
    for (int kh = 0; kh < g.kh; ++kh)
      for (int kw = 0; kw < g.kw; ++kw) {
        const std::int64_t at = windows.input_at(out, {kh, kw});
        if (at >= 0) sum += x[at * g.c + c] * w[(c * g.kh + kh) * g.kw + kw];
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
  const PixelIndex pixels(g.h, g.w);
  const Windows windows(g);
  each(args, g.n * g.h * g.w * g.c, [=] __device__(std::int64_t i) {
    const std::int64_t c = i % g.c;
    const Pixel in = pixels[static_cast<int>(i / g.c)];
    float sum = 0.0f;
    for (int kh = 0; kh < g.kh; ++kh)
      for (int kw = 0; kw < g.kw; ++kw) {
        const std::int64_t at = windows.output_at(in, {kh, kw});
        if (at >= 0) sum += dy[at * g.c + c] * w[(c * g.kh + kh) * g.kw + kw];
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
  const PixelIndex pixels(g.oh, g.ow);
  const Windows windows(g);
  for (std::int64_t at = 0; at < taps; ++at) {
    const Tap tap{static_cast<int>(at / g.kw), static_cast<int>(at % g.kw)};
    const auto element = [=] __device__(std::int64_t m, std::int64_t c) -> Pair {
      const float d = dy[m * g.c + c];
      const std::int64_t from = windows.input_at(pixels[static_cast<int>(m)], tap);
      return {from < 0 ? 0.0f : d * x[from * g.c + c], d};
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
  if (!s || !counts_by_int(s->g) || s->g.quantized || s->g.groups < 2 || s->g.groups != s->g.c || s->g.o != s->g.c)
    return false;
  if (problem.op == Op::kConv2dBackwardWeights) plan.workspace_bytes = column_bytes(s->g.n * s->g.oh * s->g.ow, s->g.c);
  return true;
}

}  // namespace mlx::kernels::cuda
