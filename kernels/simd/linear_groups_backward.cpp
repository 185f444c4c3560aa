// The gradient of linear layers with weights in groups (op_list.h, kLinearGroupsBackwardData): dx = dy · w. A slice has
// some panels of 64 inputs; of these it makes floats of the weights of a few outputs, which all rows then use. Each
// number of dx is one chain of fused multiply-adds over the outputs in order, whatever the other rows are.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

constexpr std::int64_t kPanelInputs = 64, kOutputsAtOnce = 256, kVector = 16;

// Weights of sixteen inputs of an output; the first input is a multiple of 16, so that they have one scale.
inline Floats weights_of(const State* s, const void* weights, std::int64_t output, std::int64_t input, float scale) {
  const std::int64_t at = output * s->g.in_width + input;
  if (s->g.w_type == DType::kS8)
    return to_floats(load_narrow<true>(static_cast<const std::int8_t*>(weights) + at, kVector)) * broadcast(scale);
  std::uint8_t spread[kVector];
  for (std::int64_t half = 0; half < 2; ++half) {
    std::uint32_t stored;
    __builtin_memcpy(&stored, static_cast<const std::uint8_t*>(weights) + at / 2 + 4 * half, sizeof stored);
    std::uint64_t wide = stored;
    wide = (wide | wide << 16) & 0x0000ffff0000ffff;
    wide = (wide | wide << 8) & 0x00ff00ff00ff00ff;
    wide = (wide | wide << 4) & 0x0f0f0f0f0f0f0f0f;
    __builtin_memcpy(spread + 8 * half, &wide, sizeof wide);
  }
  const Floats four = to_floats(load_narrow<false>(spread, kVector)) - broadcast(8.0f);
  return four * broadcast(scale);
}

// What one panel has to do.
struct PanelOfInputs {
  const State* s;
  const float* dy;
  float* dx;
  float* weights;  // of kOutputsAtOnce outputs
  std::int64_t input, inputs;
};

void expand(const PanelOfInputs& p, const Args& args, Range outputs) {
  const std::int64_t group = p.s->g.in_width / p.s->g.groups;
  const auto* const scales = static_cast<const F16*>(args.inputs[2]);
  for (std::int64_t n = outputs.begin; n < outputs.end; ++n)
    for (std::int64_t k = 0; k < p.inputs; k += kVector) {
      const float scale = widen(scales[(p.input + k) / group * p.s->g.out_width + n]);
      store(p.weights + (n - outputs.begin) * kPanelInputs + k, weights_of(p.s, args.inputs[1], n, p.input + k, scale));
    }
}

// R rows from `row` on, N vectors of the panel from input `k` on.
template <int R, int N>
void add_outputs(const PanelOfInputs& p, Range outputs, std::int64_t row, std::int64_t k) {
  const std::int64_t n_count = p.s->g.out_width, stride = p.s->g.in_width;
  float* const to = p.dx + row * stride + p.input + k;
  Floats sum[R][N];
  MLX_UNROLL
  for (int r = 0; r < R; ++r) {
    MLX_UNROLL
    for (int v = 0; v < N; ++v) sum[r][v] = outputs.begin > 0 ? load(to + r * stride + v * kVector) : zeros();
  }
  for (std::int64_t n = outputs.begin; n < outputs.end; ++n) {
    const float* const w = p.weights + (n - outputs.begin) * kPanelInputs + k;
    Floats factor[N];
    MLX_UNROLL
    for (int v = 0; v < N; ++v) factor[v] = load(w + v * kVector);
    MLX_UNROLL
    for (int r = 0; r < R; ++r) {
      const Floats each = broadcast(p.dy[(row + r) * n_count + n]);
      MLX_UNROLL
      for (int v = 0; v < N; ++v) sum[r][v] = fma(each, factor[v], sum[r][v]);
    }
  }
  MLX_UNROLL
  for (int r = 0; r < R; ++r) {
    MLX_UNROLL
    for (int v = 0; v < N; ++v) store(to + r * stride + v * kVector, sum[r][v]);
  }
}

template <int R>
void add_to_rows(const PanelOfInputs& p, Range outputs, std::int64_t row, std::int64_t rows) {
  if constexpr (R > 1)
    if (rows < R) return add_to_rows<R - 1>(p, outputs, row, rows);
  constexpr std::int64_t kPair = 2 * kVector;  // whole groups have pairs of vectors
  std::int64_t k = 0;
  if constexpr (kHeld >= 32)
    for (; k + 2 * kPair <= p.inputs; k += 2 * kPair) add_outputs<R, 4>(p, outputs, row, k);
  for (; k < p.inputs; k += kPair) add_outputs<R, 2>(p, outputs, row, k);
}

void backward_data(const void* opaque, const Args& args, int phase, int slice) {
  constexpr int kRows = kHeld >= 32 ? 6 : 2;
  const State* s = state_of(opaque);
  float* const weights = static_cast<float*>(args.workspace) + slice * kOutputsAtOnce * kPanelInputs;
  const Range panels = range_of(s, phase, slice);
  for (std::int64_t panel = panels.begin; panel < panels.end; ++panel) {
    const std::int64_t input = panel * kPanelInputs, left = s->g.in_width - input;
    const PanelOfInputs p{
        s, f32_in(s, args, 0), f32_out(s, args, 0), weights, input, left < kPanelInputs ? left : kPanelInputs};
    for (std::int64_t n = 0; n < s->g.out_width; n += kOutputsAtOnce) {
      const Range outputs{n, n + kOutputsAtOnce < s->g.out_width ? n + kOutputsAtOnce : s->g.out_width};
      expand(p, args, outputs);
      for (std::int64_t row = 0; row < s->g.rows; row += kRows) add_to_rows<kRows>(p, outputs, row, s->g.rows - row);
    }
  }
}

}  // namespace

bool prepare_linear_groups_backward(const Problem& problem, Plan& plan) {
  if (problem.inputs[1].dims[0] == 0) return false;  // ref gives zeros
  State* s = new_state(problem, plan, backward_data, Takes::kHalf);
  if (!s) return false;
  cut(s, plan, 0, (s->g.in_width + kPanelInputs - 1) / kPanelInputs, s->g.rows * s->g.in_width * s->g.out_width);
  plan.workspace_bytes = bytes_of(s->slices[0] * kOutputsAtOnce * kPanelInputs, sizeof(float));
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
