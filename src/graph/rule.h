// Building blocks of shape rules: access to the inputs, requirements whose errors name node and shapes, and new
// outputs. Used only by the files of src/graph/ops/; each provides its operations as rows of the table in op_def.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "graph/op_def.h"

namespace mlx::graph {

class Rule {
 public:
  // Checks the number of inputs, and that the required ones are present and exist.
  Rule(Graph& graph, Op op, const std::vector<ValueId>& inputs, const std::string& name);

  bool has(std::size_t input) const { return input < inputs_.size() && inputs_[input] != kNone; }
  // A copy, because adding outputs moves the graph's values.
  Dims dims(std::size_t input) const { return graph_.value(inputs_[input]).dims; }
  DType dtype(std::size_t input) const { return graph_.value(inputs_[input]).dtype; }
  Role role(std::size_t input) const { return graph_.value(inputs_[input]).role; }
  std::size_t rank(std::size_t input) const { return graph_.value(inputs_[input]).dims.size(); }
  // The size of a dimension that must be a number of at least 1; negative axes count from the end.
  std::int64_t size(std::size_t input, int axis) const;

  void require(bool holds, std::string_view what) const {
    if (!holds) refuse(what);
  }
  [[noreturn]] void refuse(std::string_view what) const;  // kUsage: "conv1 (conv2d): WHAT; inputs [batch,28,28,1], …"
  void require_dtype(std::size_t input, DType dtype) const;
  void require_f32() const;                    // all inputs that are present
  void require_real(std::size_t input) const;  // f32, bf16 or f16
  void require_rank(std::size_t input, std::size_t rank) const;
  void require_shape(std::size_t input, const Dims& dims) const;
  void require_vector(std::size_t input, std::int64_t size) const { require_shape(input, {Dim::of(size)}); }
  void require_written_in_place(std::size_t input) const;  // a parameter or a state

  ValueId out(std::string_view suffix, DType dtype, Dims dims);

 private:
  Graph& graph_;
  Op op_;
  const std::vector<ValueId>& inputs_;
  const std::string& name_;
};

Dims without_last(Dims dims);
Dims with_last(Dims dims, Dim last);  // the last one replaced

inline double count_of(const kernels::Shape& shape) {
  return shape.rank < 0 ? 0.0 : static_cast<double>(shape.count());
}
Cost with_bytes(double flops, std::span<const kernels::Shape> inputs, std::span<const kernels::Shape> outputs);
// A fixed number of operations per element of the first output.
template <int kOperations>
Cost per_output(const Node&, std::span<const kernels::Shape> inputs, std::span<const kernels::Shape> outputs) {
  return with_bytes(kOperations * count_of(outputs[0]), inputs, outputs);
}
template <int kOperations>
Cost per_input(const Node&, std::span<const kernels::Shape> inputs, std::span<const kernels::Shape> outputs) {
  return with_bytes(kOperations * count_of(inputs[0]), inputs, outputs);
}

// The largest kernel or stride, so that sums of sizes stay far from overflow.
inline constexpr std::int64_t kMaxWindow = 1 << 20;

// How attrs.heads and kv_heads divide qkv[B,T,(H+2G)d] (input 0); refused if they do not.
struct GroupedHeads {
  std::int64_t queries = 0, keys = 0, size = 0;  // H, G, d
};
GroupedHeads grouped_heads(const Rule& rule, const Attrs& attrs);

// The gradient before the activation that is fused into `node`, given the gradient after it. Gelu is fused for
// inference, and in training only after this (fuse_gelu), because its backward needs the pre-activation.
ValueId before_activation(Graph& graph, const Node& node, ValueId gradient);

// The result dtype of a linear layer or convolution with input 0 and weights, input 1. Checks that their dtypes and
// attrs.output match. Quantized: with scales f32[out], input 3, and a bias f32[out], input 2.
DType product_type(const Rule& rule, const Attrs& attrs, const Dims& per_output);
// The same for a gradient and weights.
DType gradient_type(const Rule& rule, const Attrs& attrs);
// attrs.output, for an output that is computed in f32 and may be stored in half precision.
DType stored_type(const Rule& rule, const Attrs& attrs);
// Checks that x and dy, inputs 0 and 1, have one type: f32, bf16 or f16.
void require_same_reals(const Rule& rule);

// attrs.axes for a tensor of `rank` dimensions; refused if one is not a dimension or is listed twice.
std::vector<std::size_t> axes_of(const Rule& rule, const Attrs& attrs, std::size_t rank);
// The combined dims of a and b by NumPy's broadcasting rules.
Dims broadcast(const Rule& rule, const Dims& a, const Dims& b);
// The gradient of a tensor that was broadcast from `dims` to the shape of `gradient`: sums over the repeated elements.
ValueId sum_to(Graph& graph, ValueId gradient, const Dims& dims, const std::string& name);
// Checks that the output's shape is given, because it does not follow from the inputs.
void require_given(const Rule& rule, const Dims* output);

// OpDef::start for operations whose input 1 is a scale of everything that passes, and for those that look up rows of
// input `kInput`.
StartValue start_of_scale(const Node& node, std::size_t input, const kernels::Shape& shape);
template <std::size_t kInput>
StartValue start_of_table(const Node&, std::size_t input, const kernels::Shape&) {
  return {input == kInput ? StartValue::kTable : StartValue::kZero};
}

// The rows of each family, defined in the family's file in this folder.
#define MLX_OP(op, name, family, ...) std::vector<OpDef> family##_ops();
#include "kernels/op_list.h"

}  // namespace mlx::graph
