// From a language model's inference graph to one that decodes with a cache of keys and values. Attention, and
// operations that know positions, receive the positions of the new tokens. From an encoder's to one that knows where
// each sequence ends.

#include <algorithm>

#include "base/error.h"
#include "graph/op_def.h"
#include "graph/passes/passes.h"
#include "graph/passes/rewrite.h"
#include "kernels/cache_bytes.h"

namespace mlx::graph {
namespace {

// Of a position's keys, in a cache of that type.
std::int64_t cache_width(const Node& attention, std::int64_t width, DType type) {
  const std::int64_t heads = attention.attrs.heads;
  const std::int64_t keys = attention.attrs.kv_heads > 0 ? attention.attrs.kv_heads : heads;
  const std::int64_t head = width / (heads + 2 * keys);
  return keys * (type == DType::kS8 ? kernels::cache_head_bytes(head) : head);
}

// The number of positions that the graph supports: the least of all tables and rotations.
std::int64_t context_of(const Graph& graph) {
  std::int64_t context = 0;
  const auto least = [&](std::int64_t positions) { context = context == 0 ? positions : std::min(context, positions); };
  for (const Node& node : graph.nodes) {
    if (node.op == Op::kAddPositions) least(graph.value(node.inputs[1]).dims[0].size);
    if (node.op == Op::kRope) least(node.attrs.axis);
  }
  return context;
}

// `rows`: the first two dims of the caches.
void add_cache(Graph& graph, std::size_t at, ValueId positions, ValueId blocks, Dims rows, DType type) {
  const Dims qkv = graph.value(graph.nodes[at].inputs[0]).dims;
  const std::string name = graph.nodes[at].name;
  const Dims cache{rows[0], rows[1], Dim::of(cache_width(graph.nodes[at], qkv[2].size, type))};
  const ValueId k = graph.state(name + ".k_cache", cache, type), v = graph.state(name + ".v_cache", cache, type);
  Node& node = graph.nodes[at];
  node.op = Op::kAttentionCached;
  node.inputs = {node.inputs[0], k, v, positions};
  if (blocks != kNone) node.inputs.push_back(blocks);
  node.outputs = {node.outputs[0], k, v};
}

// From ids[batch,sequence] to [batch,sequence,…].
bool gives_a_row_for_each_id(const Graph& inference) {
  const ValueId ids = inference.find("ids");
  return ids != kNone && inference.inputs == std::vector<ValueId>{ids} && inference.outputs.size() == 1 &&
         inference.value(ids).dims.size() == 2 && inference.value(inference.outputs[0]).dims.size() == 3;
}

bool reads_both_directions(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [](const Node& node) { return node.op == Op::kBidirectionalAttention; });
}

bool attends(const Node& node) {
  return node.op == Op::kAttention;
}

// Whether a node computes each position by itself: another shape behind batch and sequence, or parts side by side.
bool keeps_positions(const Graph& graph, const Node& node) {
  if (node.op != Op::kReshape && node.op != Op::kConcat) return false;
  const Dims &ids = graph.value(graph.find("ids")).dims, &x = graph.value(node.inputs[0]).dims,
             &y = graph.value(node.outputs[0]).dims;
  const auto of_positions = [&](const Dims& dims) { return dims.size() > 2 && dims[0] == ids[0] && dims[1] == ids[1]; };
  return of_positions(x) && of_positions(y) && (node.op == Op::kReshape || node.attrs.axis > 1);
}

}  // namespace

bool is_language_model(const Graph& inference) {
  return gives_a_row_for_each_id(inference) && !reads_both_directions(inference);
}

bool is_encoder(const Graph& inference) {
  return gives_a_row_for_each_id(inference) && reads_both_directions(inference);
}

std::int64_t vocabulary_size(const Graph& graph) {
  const auto size_of = [](const Dim& dim) { return dim.symbolic() ? 0 : dim.size; };
  for (const Node& node : graph.nodes)
    if (node.op == Op::kEmbedding && node.inputs[0] == graph.find("ids") && is_encoder(graph))
      return size_of(graph.value(node.inputs[1]).dims[0]);
  const Dims logits = graph.outputs.empty() ? Dims() : graph.value(graph.outputs[0]).dims;
  return logits.empty() ? 0 : size_of(logits.back());
}

EncodingGraph to_encoding(const Graph& inference) {
  if (!is_encoder(inference)) fail(ErrorKind::kUsage, "the graph is not an encoder");
  EncodingGraph out{inference};
  out.ids = out.graph.find("ids");
  out.lengths = out.graph.input("lengths", DType::kS32, {out.graph.value(out.ids).dims[0]});
  out.states = out.graph.outputs[0];
  for (Node& node : out.graph.nodes)
    if (node.op == Op::kBidirectionalAttention && node.inputs.size() == 1) node.inputs.push_back(out.lengths);
  return out;
}

bool decodes_with_cache(const Graph& inference) {
  const auto mixes = [&](const Node& node) {
    if (keeps_positions(inference, node) || node.op == Op::kEmbeddingBlocks) return false;
    return (kernels::row_of(node.op).primitive && !op_def(node.op).layer) || kernels::row_of(node.op).view;
  };
  if (!is_language_model(inference)) return false;
  return context_of(inference) > 0 && std::ranges::any_of(inference.nodes, attends) &&
         std::ranges::none_of(inference.nodes, mixes);
}

DecodingGraph to_decoding(const Graph& inference, std::int64_t blocks, DType cache) {
  if (!decodes_with_cache(inference))
    fail(ErrorKind::kUsage, "the graph is not a language model that can decode with a cache");
  Graph graph = inference;
  const std::int64_t context = context_of(graph);
  const ValueId ids = graph.find("ids");
  const std::string logits = graph.value(graph.outputs[0]).name;
  const Dim batch = graph.value(ids).dims[0];
  const ValueId positions = graph.input("positions", DType::kS32, {batch});
  const std::int64_t most = (context + kCacheBlock - 1) / kCacheBlock;  // blocks of a sequence
  const ValueId table = blocks > 0 ? graph.input("blocks", DType::kS32, {batch, Dim::of(most)}) : kNone;
  const Dims rows = blocks > 0 ? Dims{Dim::of(blocks), Dim::of(kCacheBlock)} : Dims{batch, Dim::of(context)};
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    Node& node = graph.nodes[i];
    if (node.op == Op::kAddPositions && node.inputs.size() == 2) node.inputs.push_back(positions);
    if (node.op == Op::kRope && node.inputs.size() == 1) node.inputs.push_back(positions);
    if (attends(node)) add_cache(graph, i, positions, table, rows, cache);
  }
  DecodingGraph out;
  out.graph = remove_dead(graph);
  out.ids = out.graph.find("ids");
  out.positions = out.graph.find("positions");
  out.blocks = blocks > 0 ? out.graph.find("blocks") : kNone;
  out.logits = out.graph.find(logits);
  out.context = context;
  return out;
}

}  // namespace mlx::graph
