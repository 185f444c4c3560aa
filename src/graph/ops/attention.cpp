// Multi-head self-attention with grouped queries: causal over a whole sequence, its gradient, and over a cache of keys
// and values; and in both directions.

#include <cmath>

#include "graph/rule.h"
#include "kernels/cache_bytes.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

// Checks that input 0, and the inputs in `others`, have one type: f32 or half precision.
DType one_type(const Rule& rule, std::initializer_list<std::size_t> others = {}) {
  rule.require_real(0);
  for (const std::size_t i : others) rule.require_dtype(i, rule.dtype(0));
  return rule.dtype(0);
}

// The dims of y, [B,T,Hd], from qkv (input 0).
Dims attended(const Rule& rule, const Attrs& attrs) {
  const GroupedHeads heads = grouped_heads(rule, attrs);
  return with_last(rule.dims(0), Dim::of(heads.queries * heads.size));
}

Ids infer_attention(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kAttention, inputs, name);
  const DType type = one_type(rule);
  const Dims y = attended(rule, attrs);
  const ValueId out = rule.out({}, type, y);
  return {out, rule.out("lse", DType::kF32, {y[0], Dim::of(attrs.heads), y[1]})};
}

Ids infer_attention_backward(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*,
                             const std::string& name) {
  Rule rule(graph, Op::kAttentionBackward, inputs, name);
  const DType type = one_type(rule, {1, 3});
  const Dims y = attended(rule, attrs);
  rule.require_shape(1, y);
  rule.require_dtype(2, DType::kF32);
  rule.require_shape(2, {y[0], Dim::of(attrs.heads), y[1]});
  rule.require_shape(3, y);
  return {rule.out({}, type, rule.dims(0))};
}

Ids backward_attention(Graph& graph, const Node& node, const Ids& gradients) {
  return graph.add(Op::kAttentionBackward, node.attrs, {node.inputs[0], node.outputs[0], node.outputs[1], gradients[0]},
                   node.name + ".backward");
}

Ids infer_attention_cached(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kAttentionCached, inputs, name);
  const Dims y = attended(rule, attrs);
  const GroupedHeads heads = grouped_heads(rule, attrs);
  const bool blocks = inputs.size() > 4 && inputs[4] != kNone;
  rule.require_dtype(0, DType::kF32);
  const DType type = rule.dtype(1);
  rule.require(type == DType::kF32 || type == DType::kF16 || type == DType::kS8, "the caches must be f32, f16 or s8");
  const std::int64_t head = type == DType::kS8 ? kernels::cache_head_bytes(heads.size) : heads.size;
  for (std::size_t i = 1; i < 3; ++i) {
    rule.require_dtype(i, type);
    rule.require_rank(i, 3);
    const Dims cache = rule.dims(i);
    rule.require((blocks || cache[0] == y[0]) && cache[2] == Dim::of(heads.keys * head),
                 "the cache must have the input's batch, unless it has blocks, and key width");
    rule.require_written_in_place(i);
  }
  rule.require_shape(2, rule.dims(1));
  rule.require(inputs[1] != inputs[2], "keys and values need a cache each");
  rule.require_dtype(3, DType::kS32);
  rule.require_shape(3, {y[0]});
  if (blocks) {
    rule.require_dtype(4, DType::kS32);
    rule.require_rank(4, 2);
    rule.require(rule.dims(4)[0] == y[0], "each sequence must have a row of blocks");
    const Dim positions = rule.dims(1)[1];
    rule.require(!positions.symbolic() && positions.size % 128 == 0, "a block must have a multiple of 128 positions");
  }
  return {rule.out({}, DType::kF32, y), inputs[1], inputs[2]};
}

Ids infer_bidirectional_attention(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*,
                                  const std::string& name) {
  Rule rule(graph, Op::kBidirectionalAttention, inputs, name);
  const Dims y = attended(rule, attrs);
  rule.require_dtype(0, DType::kF32);
  if (rule.has(1)) {
    rule.require_dtype(1, DType::kS32);
    rule.require_shape(1, {y[0]});
  }
  return {rule.out({}, DType::kF32, y)};
}

// Scores and weighted sum over the causal half: 2 · 2 · T · T/2 · Hd per sequence.
Cost cost_attention(const Node&, std::span<const kernels::Shape> inputs, std::span<const kernels::Shape> outputs) {
  return with_bytes(2.0 * count_of(outputs[0]) * static_cast<double>(inputs[0].dims[1]), inputs, outputs);
}
Cost cost_attention_backward(const Node&, std::span<const kernels::Shape> inputs,
                             std::span<const kernels::Shape> outputs) {
  return with_bytes(5.0 * count_of(inputs[1]) * static_cast<double>(inputs[0].dims[1]), inputs, outputs);
}
// An upper bound: sequences without an end before T.
Cost cost_bidirectional_attention(const Node&, std::span<const kernels::Shape> inputs,
                                  std::span<const kernels::Shape> outputs) {
  return with_bytes(4.0 * count_of(outputs[0]) * static_cast<double>(inputs[0].dims[1]), inputs, outputs);
}
// An upper bound: a full cache.
Cost cost_attention_cached(const Node&, std::span<const kernels::Shape> inputs,
                           std::span<const kernels::Shape> outputs) {
  return with_bytes(4.0 * count_of(outputs[0]) * static_cast<double>(inputs[1].dims[1]), inputs, outputs);
}

}  // namespace

GroupedHeads grouped_heads(const Rule& rule, const Attrs& attrs) {
  rule.require_rank(0, 3);
  GroupedHeads heads{attrs.heads, attrs.kv_heads > 0 ? attrs.kv_heads : attrs.heads, 0};
  rule.require(heads.queries >= 1 && heads.queries <= (1 << 20) && heads.keys <= heads.queries &&
                   heads.queries % heads.keys == 0,
               "kv_heads must divide heads");
  const std::int64_t parts = heads.queries + 2 * heads.keys, width = rule.size(0, 2);
  rule.require(attrs.window >= 0 && attrs.cap >= 0 && std::isfinite(attrs.cap), "window and cap must be at least 0");
  rule.require(width % parts == 0, "the last dimension must hold queries, keys and values, with heads of equal width");
  heads.size = width / parts;
  return heads;
}

std::vector<OpDef> attention_ops() {
  return {
      {.op = Op::kAttention,
       .text = {"qkv real[B,T,(H+2G)d] -> y real[B,T,Hd], lse[B,H,T]", "heads kv_heads scale_a cap window output",
                "Causal self-attention with grouped queries (Ainslie et al. 2023): H = heads of queries, then G = "
                "kv_heads of keys and of values (0: as many as heads), each d wide. A score is q k / sqrt(d) scale_a, "
                "and with cap "
                "c it becomes c tanh(score / c). With window w a query attends to the last w positions, its own among "
                "them. lse is the log-sum-exp of the scores."},
       .half_with_result = 1u << 0,
       .divided = Divided::kHeads,
       .infer = infer_attention,
       .backward = backward_attention,
       .cost = cost_attention},
      {.op = Op::kAttentionBackward,
       .text = {"qkv real[B,T,(H+2G)d], y real[B,T,Hd], lse[B,H,T], dy real[B,T,Hd] -> dqkv real[B,T,(H+2G)d]",
                "heads kv_heads scale_a cap window output", "Gradient of attention."},
       .half_with_result = (1u << 0) | (1u << 1) | (1u << 3),
       .infer = infer_attention_backward,
       .cost = cost_attention_backward},
      {.op = Op::kAttentionCached,
       .text =
           {"qkv[B,T,(H+2G)d], k_cache f32|f16|s8[B,P,W], v_cache f32|f16|s8[B,P,W], positions s32[B], (blocks "
            "s32[B,M]) -> y[B,T,Hd], k_cache f32|f16|s8[B,P,W], v_cache f32|f16|s8[B,P,W]",
            "heads kv_heads scale_a cap window",
            "Attention of T new positions with a cache of keys and values, which are states and written in "
            "place; positions says how many each sequence holds. A sequence that would outgrow P writes "
            "nothing and its y is 0. With blocks the caches are [N,P,W], P a multiple of 128, and position p of "
            "sequence b lies in row p mod P of block blocks[b, p / P]. W is Gd; in s8 it is G (d + 2 ceil(d / 32)): "
            "of each head d integers, then a scale in f16 of each 32 of them, max|x| / 127."},
       .infer = infer_attention_cached,
       .cost = cost_attention_cached},
      {.op = Op::kBidirectionalAttention,
       .text = {"qkv[B,T,(H+2G)d], (lengths s32[B]) -> y[B,T,Hd]", "heads kv_heads scale_a",
                "Attention in both directions, as encoders have it: each of the first lengths[b] positions of a "
                "sequence attends to all of them, and the y of the others is 0; lengths defaults to T. Heads and "
                "scores are those of attention."},
       .infer = infer_bidirectional_attention,
       .cost = cost_bidirectional_attention},
  };
}

}  // namespace mlx::graph
