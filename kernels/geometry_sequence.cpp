// Problems over rows and sequences: layer norm and RMS norm, gated activations, embeddings, positions, attention.
#include <cmath>

#include "kernels/cache_bytes.h"
#include "kernels/checker.h"
#include "kernels/rope_table.h"

namespace mlx::kernels {
namespace {

// Checks the residual that a norm adds to x, and the output for the sum.
void residual(Checker& check, const Problem& problem, int input, int output, Geometry& g) {
  if (!check.has_input(input)) return check.require(!check.has_output(output), "there is a sum only with a residual");
  const Dims dims = Checker::dims_of(check.input(0));
  check.input_stored(input, dims);
  check.output_equals(output, dims);
  g.residual_type = problem.inputs[input].dtype;
}

// qkv[B,T,(H + 2·G)·d] by attrs.heads and kv_heads.
bool grouped(Checker& check, const Problem& problem, Geometry& g, std::initializer_list<DType> dtypes = kFloat) {
  if (!check.input_is(0, 3, dtypes)) return false;
  const Shape& qkv = check.input(0);
  constexpr std::int64_t kMost = 1 << 20;
  g.heads = problem.attrs.heads, g.kv_heads = problem.attrs.kv_heads > 0 ? problem.attrs.kv_heads : g.heads;
  const bool sane = g.heads >= 1 && g.heads <= kMost && g.kv_heads <= g.heads && g.heads % g.kv_heads == 0;
  check.require(sane, "kv_heads must divide heads");
  if (!sane) return false;
  check.require(dim(qkv, 2) % (g.heads + 2 * g.kv_heads) == 0, "the width must be a multiple of heads + 2 kv_heads");
  g.batch = dim(qkv, 0), g.time = dim(qkv, 1), g.head = dim(qkv, 2) / (g.heads + 2 * g.kv_heads);
  g.dim = g.heads * g.head, g.kv_dim = g.kv_heads * g.head;
  check.input_equals(0, {g.batch, g.time, dim(qkv, 2)}, qkv.dtype);
  return check.ok();
}

}  // namespace

void check_layer_norm(Checker& check, const Problem& problem, Geometry& g) {
  if (!check.input_is(0, 1)) return;
  const Shape& x = check.input(0);
  const bool forward = problem.op == Op::kLayerNorm;
  if (!forward) check.input_stored(1, Checker::dims_of(x));
  check.input_equals(forward ? 1 : 2, {last(x)});
  if (forward) {
    check.input_equals(2, {last(x)});
    check.output_stored(0, Checker::dims_of(x));
    for (const int i : {1, 2}) check.optional_output(i, without_last(x));
    return residual(check, problem, 3, 3, g);
  }
  for (const int i : {3, 4}) check.input_equals(i, without_last(x));
  check.optional_input(5, Checker::dims_of(x));
  check.outputs_like(0, 0);
  for (const int i : {1, 2}) check.output_equals(i, {last(x)});
}

void check_rms_norm(Checker& check, const Problem& problem, Geometry& g) {
  if (!check.input_is(0, 1)) return;
  const Shape& x = check.input(0);
  const bool forward = problem.op == Op::kRmsNorm;
  if (!forward) check.input_stored(1, Checker::dims_of(x));
  check.input_equals(forward ? 1 : 2, {last(x)});
  if (forward) {
    check.output_stored(0, Checker::dims_of(x));
    check.optional_output(1, without_last(x));
    return residual(check, problem, 2, 2, g);
  }
  check.outputs_like(0, 0);
  check.input_equals(3, without_last(x));
  check.optional_input(4, Checker::dims_of(x));
  check.output_equals(1, {last(x)});
}

void check_swiglu(Checker& check, const Problem& problem, Geometry& g) {
  if (!check.input_is(0, 1, kReal)) return;
  const Shape& x = check.input(0);
  check.require(last(x) % 2 == 0, "the last dim must hold gate and up, equally wide");
  check.require(problem.attrs.activation == Activation::kNone || problem.attrs.activation == Activation::kGelu,
                "the activation must be none, which stands for SiLU, or gelu");
  const Dims half = with_last(x, last(x) / 2);
  if (problem.op == Op::kSwiGlu) return check.output_stored(0, half);
  check.input_stored(1, half);
  check.output_stored(0, Checker::dims_of(x));
}

void check_embedding(Checker& check, const Problem& problem, Geometry& g) {
  if (!check.input_is(0, 0, {DType::kS32})) return;
  const Dims ids = Checker::dims_of(check.input(0));
  const bool forward = problem.op == Op::kEmbedding;
  if (forward ? !check.input_is(1, 2) : !check.output_is(0, 2)) return;
  const Shape& table = forward ? check.input(1) : check.output(0);
  g.table = dim(table, 0), g.dim = dim(table, 1);
  Dims y = ids;
  y.push_back(g.dim);
  if (forward) {
    check.input_equals(1, {g.table, g.dim});
    return check.output_equals(0, y);
  }
  check.input_equals(1, y);
  check.output_equals(0, {g.table, g.dim});
}

void check_positions(Checker& check, const Problem& problem, Geometry& g) {
  if (!check.input_is(0, 3)) return;
  const Shape& x = check.input(0);
  g.batch = dim(x, 0), g.time = dim(x, 1), g.dim = dim(x, 2);
  check.input_equals(0, {g.batch, g.time, g.dim});
  const bool forward = problem.op == Op::kAddPositions;
  if (forward ? !check.input_is(1, 2) : !check.output_is(0, 2)) return;
  g.table = dim(forward ? check.input(1) : check.output(0), 0);
  if (forward) {
    check.input_equals(1, {g.table, g.dim});
    check.optional_input(2, {g.batch}, DType::kS32);
    return check.outputs_like(0, 0);
  }
  check.optional_input(1, {g.batch}, DType::kS32);
  check.output_equals(0, {g.table, g.dim});
}

void check_rope(Checker& check, const Problem& problem, Geometry& g) {
  if (!grouped(check, problem, g)) return;
  check.require(g.head % 2 == 0, "the width of a head must be even");
  check.require(problem.attrs.theta > 0.0f, "theta must be positive");
  check.require(sane_turns(problem.attrs),
                "slow must be at least 1, long_low below long_high, ramp_begin below ramp_end");
  check.require(problem.attrs.axis >= 1 && problem.attrs.axis <= (1 << 24), "the number of positions must be given");
  g.table = problem.attrs.axis;
  check.optional_input(1, {g.batch}, DType::kS32);
  check.outputs_like(0, 0);
}

void check_attention(Checker& check, const Problem& problem, Geometry& g) {
  const bool half = problem.op == Op::kAttention || problem.op == Op::kAttentionBackward;
  if (!grouped(check, problem, g, half ? kReal : kFloat)) return;
  check.require(problem.attrs.window >= 0, "the window must be at least 0");
  check.require(problem.attrs.cap >= 0.0f && std::isfinite(problem.attrs.cap), "the cap must be at least 0");
  const DType type = check.input(0).dtype;
  const Dims y{g.batch, g.time, g.dim}, lse{g.batch, g.heads, g.time};
  if (problem.op == Op::kAttentionBackward) {
    check.input_equals(1, y, type);
    check.input_equals(2, lse);
    check.input_equals(3, y, type);
    return check.output_equals(0, Checker::dims_of(check.input(0)), type);
  }
  check.output_equals(0, y, type);
  if (problem.op == Op::kAttention) return check.optional_output(1, lse);
  if (problem.op == Op::kBidirectionalAttention) return check.optional_input(1, {g.batch}, DType::kS32);
  if (!check.input_is(1, 3, {DType::kF32, DType::kF16, DType::kS8})) return;
  g.table = dim(check.input(1), 1);
  g.blocks = g.batch;
  if (check.has_input(4)) {
    if (!check.input_is(4, 2, {DType::kS32})) return;
    g.block = g.table, g.blocks = dim(check.input(1), 0);
    check.require(g.block % 128 == 0, "a block must have a multiple of 128 positions");
    g.table *= dim(check.input(4), 1);
    check.input_equals(4, {g.batch, dim(check.input(4), 1)}, DType::kS32);
  }
  g.cache_type = check.input(1).dtype;
  const std::int64_t width = g.cache_type == DType::kS8 ? g.kv_heads * cache_head_bytes(g.head) : g.kv_dim;
  const Dims cache{g.blocks, dim(check.input(1), 1), width};
  for (const int i : {1, 2}) check.input_equals(i, cache, g.cache_type), check.output_equals(i, cache, g.cache_type);
  check.input_equals(3, {g.batch}, DType::kS32);
}

}  // namespace mlx::kernels
