// Linear layer, f32: forward and both gradients through one register-blocked kernel
//   c[i, j] = act(sum over p of a(i, p) b[p, j] + bias[j]),   a(i, p) at a[i * row_step + p * sum_step].
// Each element sums over p in order, so a row's bits do not depend on the other rows. Used for small sizes and without
// oneDNN.
#include "kernels/simd/lanes.h"

namespace mlx::kernels::MLX_ISA {
namespace {

constexpr std::int64_t kDepth = 512;  // of one pass over p: 64 columns of b then fit the second-level cache

struct Product {
  const float* a;
  std::int64_t row_step, sum_step;
  const float* b;
  std::int64_t b_stride;
  float* c;
  std::int64_t c_stride;
  std::int64_t depth;  // how many p
  const float* bias;   // null for none
  Activation activation;
};

// R rows and N vectors of c, terms p of [begin, end).
template <int R, int N, typename M>
void tile(const Product& m, std::int64_t i, std::int64_t j, M last, std::int64_t begin, std::int64_t end) {
  Floats sum[R][N];
  float* c = m.c + i * m.c_stride + j;
  MLX_UNROLL
  for (int r = 0; r < R; ++r) {
    MLX_UNROLL
    for (int v = 0; v < N; ++v)
      sum[r][v] = begin == 0 ? zeros() : load(c + r * m.c_stride + 16 * v, lanes_of(v, N, last));
  }
  const float* a = m.a + i * m.row_step + begin * m.sum_step;
  const float* b = m.b + begin * m.b_stride + j;
  for (std::int64_t p = begin; p < end; ++p, a += m.sum_step, b += m.b_stride) {
    Floats row[N];
    MLX_UNROLL
    for (int v = 0; v < N; ++v) row[v] = load(b + 16 * v, lanes_of(v, N, last));
    MLX_UNROLL
    for (int r = 0; r < R; ++r) {
      const Floats factor = broadcast(a[r * m.row_step]);
      MLX_UNROLL
      for (int v = 0; v < N; ++v) sum[r][v] = fma(factor, row[v], sum[r][v]);
    }
  }
  MLX_UNROLL
  for (int v = 0; v < N; ++v) {
    const auto mask = lanes_of(v, N, last);
    Floats shift = zeros();
    if (end == m.depth && m.bias) shift = load(m.bias + j + 16 * v, mask);
    MLX_UNROLL
    for (int r = 0; r < R; ++r) {
      Floats value = sum[r][v];
      if (end == m.depth) {
        value = value + shift;
        if (m.activation == Activation::kRelu) value = relu16(value);
        if (m.activation == Activation::kRelu6) value = bounded16(bounds_of(Activation::kRelu6), value);
        if (m.activation == Activation::kGelu) value = gelu16(value);
      }
      store(c + r * m.c_stride + 16 * v, value, mask);
    }
  }
}

void multiply(const Product& m, Range rows, Range columns) {
  for (std::int64_t begin = 0; begin == 0 || begin < m.depth; begin += kDepth) {
    const std::int64_t end = begin + kDepth < m.depth ? begin + kDepth : m.depth;
    by_channels(columns.end - columns.begin, [&]<int N>(std::int64_t from, auto last) {
      const std::int64_t j = columns.begin + from;
      std::int64_t i = rows.begin;
      for (; i + 6 <= rows.end; i += 6) tile<6, N>(m, i, j, last, begin, end);
      for (; i + 2 <= rows.end; i += 2) tile<2, N>(m, i, j, last, begin, end);
      for (; i < rows.end; ++i) tile<1, N>(m, i, j, last, begin, end);
    });
  }
}

// The result is cut in blocks of 48 rows and 64 columns, column after column of blocks: enough rows to use b again
// while it is in the second-level cache.
constexpr std::int64_t kBlockRows = 48, kBlockColumns = 64;

inline std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

void sliced(const State* s, const Product& m, std::int64_t rows, std::int64_t columns, int phase, int slice) {
  const Range items = range_of(s, phase, slice);
  const std::int64_t high = (rows + kBlockRows - 1) / kBlockRows;
  for (std::int64_t item = items.begin; item < items.end; ++item) {
    const std::int64_t i = item % high * kBlockRows, j = item / high * kBlockColumns;
    multiply(m, {i, smaller(i + kBlockRows, rows)}, {j, smaller(j + kBlockColumns, columns)});
  }
}
void cut_product(State* s, Plan& plan, std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  const std::int64_t high = (rows + kBlockRows - 1) / kBlockRows, wide = (columns + kBlockColumns - 1) / kBlockColumns;
  cut(s, plan, 0, high * wide, rows * columns * (depth / 4 + 4));
}

std::int64_t padded(std::int64_t width) {
  return (width + 15) / 16 * 16;
}

void forward(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t k = s->g.in_width, n = s->g.out_width;
  const Product m{f32_in(s, args, 0),
                  k,
                  1,
                  static_cast<const float*>(args.packed),
                  padded(n),
                  f32_out(s, args, 0),
                  n,
                  k,
                  f32_in(s, args, 2),
                  s->attrs.activation};
  sliced(s, m, s->g.rows, n, phase, slice);
}

// w[N,K] to [K, N padded to 16].
void pack(const void* opaque, const void* weights, void* packed) {
  const State* s = state_of(opaque);
  const std::int64_t k_count = s->g.in_width, n_count = s->g.out_width, stride = padded(n_count);
  const auto* w = static_cast<const float*>(weights);
  auto* out = static_cast<float*>(packed);
  for (std::int64_t n = 0; n < stride; n += 16)
    for (std::int64_t k = 0; k < k_count; ++k)
      for (std::int64_t lane = 0; lane < 16; ++lane)
        out[k * stride + n + lane] = n + lane < n_count ? w[(n + lane) * k_count + k] : 0.0f;
}

void backward_data(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t k = s->g.in_width, n = s->g.out_width;
  const Product m{f32_in(s, args, 0), n, 1, f32_in(s, args, 1), k, f32_out(s, args, 0), k, n, nullptr,
                  Activation::kNone};
  sliced(s, m, s->g.rows, k, phase, slice);
}

// dw = dyᵀ x; phase 1 sums db over the rows in order.
void backward_weights(const void* opaque, const Args& args, int phase, int slice) {
  const State* s = state_of(opaque);
  const std::int64_t k = s->g.in_width, n = s->g.out_width;
  const float* dy = f32_in(s, args, 1);
  if (phase == 0) {
    const Product m{dy, 1, n, f32_in(s, args, 0), k, f32_out(s, args, 0), k, s->g.rows, nullptr, Activation::kNone};
    return sliced(s, m, n, k, phase, slice);
  }
  float* db = f32_out(s, args, 1);
  const Range blocks = range_of(s, phase, slice);
  for (std::int64_t j = blocks.begin * 16; j < blocks.end * 16; j += 16) {
    const Mask mask = lanes(n - j);
    Floats sum = zeros();
    for (std::int64_t r = 0; r < s->g.rows; ++r) sum = sum + load(dy + r * n + j, mask);
    store(db + j, sum, mask);
  }
}

}  // namespace

bool prepare_linear(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, forward);
  if (!s || s->g.quantized) return false;
  const std::int64_t k = s->g.in_width, n = s->g.out_width;
  if (problem.op == Op::kLinear) {
    cut_product(s, plan, s->g.rows, n, k);
    plan.packed_input = 1;
    plan.packed_bytes = bytes_of(k * padded(n), sizeof(float));
    plan.pack = pack;
  } else if (problem.op == Op::kLinearBackwardData) {
    plan.run = backward_data;
    cut_product(s, plan, s->g.rows, k, n);
  } else {
    plan.run = backward_weights;
    cut_product(s, plan, n, k, s->g.rows);
    if (s->g.has_output[1]) cut(s, plan, 1, (n + 15) / 16, s->g.rows * n * 4);
  }
  return true;
}

}  // namespace mlx::kernels::MLX_ISA
