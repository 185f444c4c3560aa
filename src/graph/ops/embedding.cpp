// Embedding: rows of a table by id, and the table's gradient.

#include "graph/rule.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

Ids infer_embedding(Graph& graph, const Attrs&, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kEmbedding, inputs, name);
  rule.require_dtype(0, DType::kS32);
  rule.require_dtype(1, DType::kF32);
  rule.require_rank(1, 2);
  rule.size(1, 0);
  Dims y = rule.dims(0);
  y.push_back(Dim::of(rule.size(1, 1)));
  rule.require(y.size() <= kernels::kMaxRank, "the output has too many dimensions");
  return {rule.out({}, DType::kF32, y)};
}

Ids infer_embedding_backward(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*,
                             const std::string& name) {
  Rule rule(graph, Op::kEmbeddingBackward, inputs, name);
  rule.require_dtype(0, DType::kS32);
  rule.require_dtype(1, DType::kF32);
  rule.require(rule.rank(1) >= 1 && without_last(rule.dims(1)) == rule.dims(0), "ids and gradient do not fit");
  rule.require(attrs.axis >= 1, "the size of the vocabulary must be given");
  return {rule.out({}, DType::kF32, {Dim::of(attrs.axis), Dim::of(rule.size(1, -1))})};
}

Ids backward_embedding(Graph& graph, const Node& node, const Ids& gradients) {
  Attrs attrs;
  attrs.axis = graph.value(node.inputs[1]).dims[0].size;
  return {kNone, graph.add(Op::kEmbeddingBackward, attrs, {node.inputs[0], gradients[0]}, node.name + ".backward")[0]};
}

// Only the rows that are read or written are moved, not the table.
Cost cost_embedding(const Node&, std::span<const kernels::Shape>, std::span<const kernels::Shape> outputs) {
  return {0, 2.0 * static_cast<double>(outputs[0].bytes())};
}

}  // namespace

std::vector<OpDef> embedding_ops() {
  return {
      {.op = Op::kEmbedding,
       .text = {"ids s32[...], table[V,D] -> y[...,D]", "",
                "Embedding: row ids[i] of the table. An id outside 0 to V-1 gives zeros and has no gradient; a "
                "constant one is refused."},
       .infer = infer_embedding,
       .backward = backward_embedding,
       .cost = cost_embedding,
       .start = start_of_table<1>},
      {.op = Op::kEmbeddingBackward,
       .text = {"ids s32[...], dy[...,D] -> dtable[V,D]", "axis",
                "Gradient of embedding with respect to its table; axis is V."},
       .infer = infer_embedding_backward},
  };
}

}  // namespace mlx::graph
