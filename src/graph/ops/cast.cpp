// Conversion between f32 and the half-precision types.

#include "graph/rule.h"

namespace mlx::graph {
namespace {

std::vector<ValueId> infer_cast(Graph& graph, const Attrs& attrs, const std::vector<ValueId>& inputs, const Dims*,
                                const std::string& name) {
  Rule rule(graph, Op::kCast, inputs, name);
  const DType from = rule.dtype(0), to = attrs.output;
  rule.require((from == DType::kF32 && kernels::is_half(to)) || (kernels::is_half(from) && to == DType::kF32),
               "a cast is between f32 and bf16 or f16");
  return {rule.out({}, attrs.output, rule.dims(0))};
}

}  // namespace

std::vector<OpDef> cast_ops() {
  return {{.op = Op::kCast,
           .text = {"x real -> y real", "output", "Conversion from f32 to bf16 or f16, rounded to nearest, or back."},
           .infer = infer_cast,
           .cost = per_output<1>}};
}

}  // namespace mlx::graph
