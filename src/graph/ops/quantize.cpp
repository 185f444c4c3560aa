// Conversion between f32 and eight bits (symmetric, zero point 0).

#include "graph/rule.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

Ids infer_quantize(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kQuantize, inputs, name);
  rule.require_f32();
  rule.require(attrs.output == DType::kU8 || attrs.output == DType::kS8, "the output must be u8 or s8");
  rule.require(attrs.scale_y > 0, "the scale must be positive");
  return {rule.out({}, attrs.output, rule.dims(0))};
}

Ids infer_dequantize(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kDequantize, inputs, name);
  rule.require(rule.dtype(0) == DType::kU8 || rule.dtype(0) == DType::kS8, "the input must be u8 or s8");
  rule.require(attrs.scale_x > 0, "the scale must be positive");
  return {rule.out({}, DType::kF32, rule.dims(0))};
}

}  // namespace

std::vector<OpDef> quantize_ops() {
  return {
      {.op = Op::kQuantize,
       .text = {"x -> y byte", "output scale_y", "y = x / scale_y, rounded to the nearest even integer and saturated."},
       .infer = infer_quantize,
       .cost = per_output<2>},
      {.op = Op::kDequantize,
       .text = {"x byte -> y", "scale_x", "y = scale_x x."},
       .infer = infer_dequantize,
       .cost = per_output<1>},
  };
}

}  // namespace mlx::graph
