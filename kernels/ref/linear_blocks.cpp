// Reference linear layer with weights in blocks, and rows of a table in blocks (op_list.h, kLinearBlocks).
#include <algorithm>
#include <vector>

#include "kernels/block_type.h"
#include "kernels/ref/ref.h"

namespace mlx::kernels::ref {
namespace {

constexpr std::int64_t kRoundedTogether = 32;  // numbers of x that share a scale

// A row of x in groups.
struct RoundedRow {
  std::vector<std::int32_t> x;
  std::vector<float> scales;
};

RoundedRow rounded_row(const float* x, std::int64_t count) {
  RoundedRow out{std::vector<std::int32_t>(static_cast<std::size_t>(count)), {}};
  for (std::int64_t i = 0; i < count; i += kRoundedTogether)
    out.scales.push_back(round_group(x + i, kRoundedTogether, out.x.data() + i));
  return out;
}

// Adds to y what block `at` of a row of weights gives.
float add_block(const BlockType& type, const UnpackedBlock& block, const RoundedRow& row, std::int64_t at, float y) {
  const float scale = widen(block.scale), low = type.lowered ? widen(block.low) : 0.0f;
  for (std::int64_t i = 0; i < type.weights; i += type.part) {
    const std::int64_t begin = at * type.weights + i, part = i / type.part;
    std::int32_t sum = 0, sum_x = 0;
    for (std::int64_t j = 0; j < type.part; ++j) {
      const std::int32_t x = row.x[static_cast<std::size_t>(begin + j)];
      sum += x * (block.integers[i + j] - type.offset), sum_x += x;
    }
    const float x_scale = row.scales[static_cast<std::size_t>(begin / kRoundedTogether)];
    y = std::fma(static_cast<float>(sum), scale * static_cast<float>(block.parts[part]) * x_scale, y);
    if (type.lowered)
      y = std::fma(-(low * static_cast<float>(block.lows[part])), x_scale * static_cast<float>(sum_x), y);
  }
  return y;
}

void multiply_blocks(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const float *x = f32_in(&s, args, 0), *b = f32_in(&s, args, 2);
  const auto* weights = static_cast<const std::uint8_t*>(args.inputs[1]);
  const Range range = range_of(&s, phase, slice);
  std::vector<RoundedRow> rows;
  for (std::int64_t r = range.begin; r < range.end; ++r)
    rows.push_back(rounded_row(x + r * s.g.in_width, s.g.in_width));
  for (int run = 0; run < s.g.parts; ++run) {
    const BlockType& type = *find_block_type(s.g.part_type[run]);
    const std::int64_t blocks = s.g.in_width / type.weights;
    const std::uint8_t* from = weights + s.g.part_begin[run];
    for (std::int64_t n = s.g.part_row[run]; n < s.g.part_row[run] + s.g.part_size[run]; ++n) {
      float* const y = f32_out(&s, args, 0) + range.begin * s.g.out_width + n;
      for (std::size_t r = 0; r < rows.size(); ++r) y[static_cast<std::int64_t>(r) * s.g.out_width] = b ? b[n] : 0.0f;
      for (std::int64_t at = 0; at < blocks; ++at, from += type.bytes) {
        UnpackedBlock block;
        unpack_block(type, from, block);
        for (std::size_t r = 0; r < rows.size(); ++r) {
          float& sum = y[static_cast<std::int64_t>(r) * s.g.out_width];
          sum = add_block(type, block, rows[r], at, sum);
        }
      }
    }
  }
}

void embed_blocks(const void* opaque, const Args& args, int phase, int slice) {
  const State& s = state_of(opaque);
  const std::int32_t* ids = s32_in(&s, args, 0);
  const auto* table = static_cast<const std::uint8_t*>(args.inputs[1]);
  const BlockType& type = *find_block_type(s.g.part_type[0]);
  const std::int64_t blocks = s.g.dim / type.weights;
  const Range range = range_of(&s, phase, slice);
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    float* const y = f32_out(&s, args, 0) + i * s.g.dim;
    if (ids[i] >= 0 && ids[i] < s.g.table)
      expand_blocks(type, table + ids[i] * blocks * type.bytes, blocks, y);
    else
      std::fill_n(y, s.g.dim, 0.0f);
  }
}

}  // namespace

bool prepare_linear_blocks(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, multiply_blocks);
  if (!s) return false;
  cut(s, plan, 0, s->g.rows, s->g.rows * s->g.in_width * s->g.out_width);
  return true;
}

// There is no other kernel: a step reads few rows.
bool prepare_embedding_blocks(const Problem& problem, Plan& plan) {
  State* s = new_state(problem, plan, embed_blocks);
  if (!s) return false;
  cut(s, plan, 0, s->g.count, s->g.count * s->g.dim * 8);
  return true;
}

}  // namespace mlx::kernels::ref
