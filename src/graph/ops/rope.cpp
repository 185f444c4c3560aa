// Rotary positions of queries and keys, and their gradient, the inverse rotation.

#include "graph/rule.h"
#include "kernels/rope_table.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

template <Op kOp>
Ids infer_rope(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, kOp, inputs, name);
  rule.require_dtype(0, DType::kF32);
  const GroupedHeads heads = grouped_heads(rule, attrs);
  rule.require(heads.size % 2 == 0, "the width of a head must be even");
  rule.require(attrs.theta > 0, "theta must be above 0");
  rule.require(kernels::sane_turns(attrs), "slow must be at least 1, and long_low below long_high");
  rule.require(attrs.axis >= 1 && attrs.axis <= (1 << 24), "the number of positions must be given");
  if (rule.has(1)) {
    rule.require_dtype(1, DType::kS32);
    rule.require_shape(1, {rule.dims(0)[0]});
  }
  return {rule.out({}, DType::kF32, rule.dims(0))};
}

Ids backward_rope(Graph& graph, const Node& node, const Ids& gradients) {
  Ids inputs{gradients[0]};
  if (node.inputs.size() > 1) inputs.push_back(node.inputs[1]);
  return {graph.add(Op::kRopeBackward, node.attrs, inputs, node.name + ".backward")[0], kNone};
}

}  // namespace

std::vector<OpDef> rope_ops() {
  return {
      {.op = Op::kRope,
       .text =
           {"qkv[B,T,(H+2G)d], (positions s32[B]) -> y[B,T,(H+2G)d]",
            "heads kv_heads theta slow long_context long_low long_high ramp_begin ramp_end axis",
            "Rotary position embedding of queries and keys (Su et al. 2021): elements i and i + d/2 of a head "
            "turn by position f, f = theta^(-2i/d) / slow. With long_context C, slow counts only where the turns in C "
            "positions, C f / 2 pi, are less than long_low, not at all from long_high, and in between f goes "
            "over linearly. With ramp_end, slow counts not at all for i up to ramp_begin, fully from ramp_end on, and "
            "f "
            "goes over linearly in between. axis is the number of positions; those outside are not turned."},
       .in_place = 1u << 0,
       .divided = Divided::kHeads,
       .infer = infer_rope<Op::kRope>,
       .backward = backward_rope,
       .cost = per_output<3>},
      {.op = Op::kRopeBackward,
       .text = {"dy[B,T,(H+2G)d], (positions s32[B]) -> dx[B,T,(H+2G)d]",
                "heads kv_heads theta slow long_context long_low long_high ramp_begin ramp_end axis",
                "Gradient of rope: the rotation backwards."},
       .in_place = 1u << 0,
       .infer = infer_rope<Op::kRopeBackward>,
       .cost = per_output<3>},
  };
}

}  // namespace mlx::graph
