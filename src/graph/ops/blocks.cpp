// Weights in blocks as GGUF files have them, for inference: linear layers, and tables of embeddings
// (kernels/op_list.h, kLinearBlocks; kernels/block_type.h).

#include "graph/rule.h"
#include "kernels/block_type.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

constexpr std::int64_t kMostOfBlocks = std::int64_t{1} << 28;  // rows of a type, numbers of a row

// The rows of all types. Requires that they are what input 1 holds, if each has `width` numbers.
std::int64_t rows_of_blocks(const Rule& rule, const Attrs& attrs, std::int64_t width) {
  const kernels::IntList &types = attrs.blocks, &rows = attrs.block_rows;
  rule.require_dtype(1, DType::kU8);
  rule.require_rank(1, 1);
  rule.require(types.count >= 1 && types.count == rows.count, "each of blocks must have its block_rows");
  rule.require(width > 0 && width <= kMostOfBlocks, "the width of rows is not possible");
  std::int64_t count = 0, bytes = 0;
  for (int i = 0; i < types.count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const kernels::BlockType* const type = kernels::find_block_type(types.at[at]);
    rule.require(type != nullptr, "blocks has a number that is no type of blocks");
    rule.require(width % type->weights == 0, "rows must be whole blocks");
    rule.require(rows.at[at] >= 1 && rows.at[at] <= kMostOfBlocks, "block_rows must be at least 1");
    count += rows.at[at], bytes += rows.at[at] * (width / type->weights) * type->bytes;
  }
  rule.require(rule.size(1, 0) == bytes, "the weights have another size than their blocks");
  return count;
}

Ids infer_linear_blocks(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kLinearBlocks, inputs, name);
  rule.require_dtype(0, DType::kF32);
  rule.require(rule.rank(0) >= 1 && !rule.dims(0).back().symbolic(), "the last dimension must have a fixed size");
  const std::int64_t n = rows_of_blocks(rule, attrs, rule.size(0, -1));
  if (rule.has(2)) {
    rule.require_dtype(2, DType::kF32);
    rule.require_vector(2, n);
  }
  return {rule.out({}, DType::kF32, with_last(rule.dims(0), Dim::of(n)))};
}

Ids infer_embedding_blocks(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kEmbeddingBlocks, inputs, name);
  rule.require_dtype(0, DType::kS32);
  rule.require_rank(1, 1);
  const kernels::BlockType* const type = kernels::find_block_type(attrs.blocks.at[0]);
  rule.require(type && attrs.blocks.count == 1 && attrs.block_rows.count == 1 && attrs.block_rows.at[0] >= 1,
               "a table has one type of blocks, and at least a row");
  const std::int64_t width = rule.size(1, 0) / attrs.block_rows.at[0] / type->bytes * type->weights;
  rows_of_blocks(rule, attrs, width);
  Dims y = rule.dims(0);
  y.push_back(Dim::of(width));
  rule.require(y.size() <= kernels::kMaxRank, "the output has too many dimensions");
  return {rule.out({}, DType::kF32, y)};
}

Cost cost_linear_blocks(const Node&, std::span<const kernels::Shape> inputs, std::span<const kernels::Shape> outputs) {
  return with_bytes(2.0 * count_of(outputs[0]) * static_cast<double>(inputs[0].dims[inputs[0].rank - 1]), inputs,
                    outputs);
}
Cost cost_embedding_blocks(const Node&, std::span<const kernels::Shape>, std::span<const kernels::Shape> outputs) {
  return {0, static_cast<double>(outputs[0].bytes())};
}

}  // namespace

std::vector<OpDef> linear_blocks_ops() {
  return {
      {.op = Op::kLinearBlocks,
       .text =
           {"x[...,K], w u8[J], (b[N]) -> y[...,N]", "blocks block_rows",
            "Linear layer with weights in blocks, as GGUF files have them: y = x w^T + b. w holds N rows of K weights: "
            "block_rows rows of each type in blocks, by ggml's numbers (2, 3, 6, 7, 8: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, "
            "in blocks of 32; 10 to 14: Q2_K to Q6_K, of 256). x is rounded to s8 in groups of 32, with max|x| / 127 "
            "as scale."},
       .layer = true,
       .infer = infer_linear_blocks,
       .cost = cost_linear_blocks},
  };
}

std::vector<OpDef> embedding_blocks_ops() {
  return {
      {.op = Op::kEmbeddingBlocks,
       .text = {"ids s32[...], table u8[J] -> y[...,D]", "blocks block_rows",
                "Embedding whose table has rows of blocks, as linear_blocks has them: of one type, block_rows of them. "
                "An id outside gives zeros."},
       .infer = infer_embedding_blocks,
       .cost = cost_embedding_blocks},
  };
}

}  // namespace mlx::graph
