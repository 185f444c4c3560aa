// The dtypes that can be combined in products, for the shape rules of linear layers and convolutions: f32; activations
// in half precision with weights in f32 or the same type, and a result in f32 or the same type; eight bits with their
// scales.

#include "graph/rule.h"

namespace mlx::graph {
namespace {

void require_result(const Rule& rule, const Attrs& attrs) {
  stored_type(rule, attrs);
  rule.require(attrs.output == DType::kF32 || attrs.output == rule.dtype(0),
               "the output must be f32, or of the input's type");
}

}  // namespace

DType stored_type(const Rule& rule, const Attrs& attrs) {
  rule.require(attrs.output == DType::kF32 || kernels::is_half(attrs.output), "the output is f32, bf16 or f16");
  return attrs.output;
}

DType product_type(const Rule& rule, const Attrs& attrs, const Dims& per_output) {
  if (rule.has(2)) {
    rule.require_dtype(2, DType::kF32);
    rule.require_shape(2, per_output);
  }
  if (rule.dtype(1) == DType::kS8) {
    rule.require(rule.dtype(0) == DType::kU8 || rule.dtype(0) == DType::kS8, "s8 weights need a u8 or s8 input");
    rule.require(rule.has(3), "s8 weights need their scales");
    rule.require_dtype(3, DType::kF32);
    rule.require_shape(3, per_output);
    rule.require(attrs.output == DType::kF32 || attrs.output == DType::kU8 || attrs.output == DType::kS8,
                 "the output must be f32, u8 or s8");
    rule.require(attrs.scale_x > 0 && attrs.scale_y > 0, "scales must be positive");
    return attrs.output;
  }
  rule.require(!rule.has(3), "scales are for s8 weights");
  return gradient_type(rule, attrs);
}

DType gradient_type(const Rule& rule, const Attrs& attrs) {
  rule.require_real(0);
  if (rule.dtype(1) != rule.dtype(0)) rule.require_dtype(1, DType::kF32);
  require_result(rule, attrs);
  return attrs.output;
}

void require_same_reals(const Rule& rule) {
  rule.require_real(0);
  rule.require_dtype(1, rule.dtype(0));
}

}  // namespace mlx::graph
