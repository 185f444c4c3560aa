// Pooling of NHWC images: maximum in windows, global average.

#include "graph/rule.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

std::int64_t pooled(const Rule& rule, std::int64_t size, const Attrs& attrs, std::size_t axis) {
  const std::int64_t before = attrs.pad[2 * axis], after = attrs.pad[2 * axis + 1];
  rule.require(attrs.kernel[axis] >= 1 && attrs.kernel[axis] <= kMaxWindow && attrs.stride[axis] >= 1 &&
                   attrs.stride[axis] <= kMaxWindow && before >= 0 && after >= 0 && before < attrs.kernel[axis] &&
                   after < attrs.kernel[axis],
               "window and stride must be at least 1, and padding less than the window");
  const std::int64_t span = size + before + after - attrs.kernel[axis];
  rule.require(span >= 0, "the window is larger than the padded image");
  return span / attrs.stride[axis] + 1;
}

Dims pooled_dims(const Rule& rule, const Attrs& attrs, const Dims& x) {
  rule.require(x.size() == 4, "images must have 4 dimensions");
  for (std::size_t i = 1; i < 4; ++i)
    rule.require(!x[i].symbolic() && x[i].size >= 1, "only the number of images may be symbolic");
  return {x[0], Dim::of(pooled(rule, x[1].size, attrs, 0)), Dim::of(pooled(rule, x[2].size, attrs, 1)), x[3]};
}

Ids infer_max(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kMaxPool, inputs, name);
  const bool bytes = rule.dtype(0) == DType::kU8 || rule.dtype(0) == DType::kS8;
  if (!bytes) rule.require_real(0);
  const Dims y = pooled_dims(rule, attrs, rule.dims(0));
  const ValueId out = rule.out({}, bytes ? rule.dtype(0) : stored_type(rule, attrs), y);
  return {out, rule.out("index", DType::kS32, y)};
}

Ids infer_max_backward(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims* given,
                       const std::string& name) {
  Rule rule(graph, Op::kMaxPoolBackward, inputs, name);
  rule.require(given != nullptr, "the output's shape must be given");
  rule.require_real(0);
  rule.require_dtype(1, DType::kS32);
  rule.require_shape(1, rule.dims(0));
  rule.require(pooled_dims(rule, attrs, *given) == rule.dims(0), "the gradient does not have the pooled shape");
  return {rule.out({}, stored_type(rule, attrs), *given)};
}

Ids infer_average(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kAvgPool, inputs, name);
  const DType dtype = rule.dtype(0);
  rule.require(dtype == DType::kF32 || dtype == DType::kU8 || dtype == DType::kS8, "the input must be f32, u8 or s8");
  rule.require(attrs.scale_x > 0, "scales must be positive");
  rule.require_rank(0, 4);
  return {rule.out({}, DType::kF32, {rule.dims(0)[0], rule.dims(0)[3]})};
}

Ids infer_average_backward(Graph& graph, const Attrs&, const Ids& inputs, const Dims* given, const std::string& name) {
  Rule rule(graph, Op::kAvgPoolBackward, inputs, name);
  rule.require_f32();
  rule.require(given != nullptr && given->size() == 4, "the output's shape must be given");
  rule.require_shape(0, {(*given)[0], (*given)[3]});
  return {rule.out({}, DType::kF32, *given)};
}

template <Op kBackward>
Ids backward_pool(Graph& graph, const Node& node, const Ids& gradients) {
  const Dims x = graph.value(node.inputs[0]).dims;
  Ids inputs{gradients[0]};
  if (kBackward == Op::kMaxPoolBackward) inputs.push_back(node.outputs[1]);
  return graph.add_shaped(kBackward, node.attrs, inputs, x, node.name + ".backward");
}

Cost cost_max(const Node& node, std::span<const kernels::Shape> inputs, std::span<const kernels::Shape> outputs) {
  return with_bytes(count_of(outputs[0]) * static_cast<double>(node.attrs.kernel[0] * node.attrs.kernel[1]), inputs,
                    outputs);
}

}  // namespace

std::vector<OpDef> pool_ops() {
  return {
      {.op = Op::kMaxPool,
       .text = {"x real|byte[N,H,W,C] -> y real|byte[N,OH,OW,C], (index s32[N,OH,OW,C])", "kernel stride pad output",
                "Maximum in each window; index is the offset of the maximum in the image plane. Padding is less "
                "than the kernel and never the maximum."},
       .optional_outputs = 1u << 1,
       .reads_half = 1u << 0,
       .stores_half = true,
       .eight_bits = EightBits::kKeepsScale,
       .infer = infer_max,
       .backward = backward_pool<Op::kMaxPoolBackward>,
       .cost = cost_max},
      {.op = Op::kMaxPoolBackward,
       .text = {"dy real[N,OH,OW,C], index s32[N,OH,OW,C] -> dx real[N,H,W,C]", "kernel stride pad output",
                "Gradient of max_pool: dy goes to the maxima."},
       .reads_half = 1u << 0,
       .stores_half = true,
       .infer = infer_max_backward,
       .cost = per_input<1>},
      {.op = Op::kAvgPool,
       .text = {"x f32|byte[N,H,W,C] -> y[N,C]", "scale_x",
                "Global average over height and width; scale_x is the scale of an x in eight bits."},
       .eight_bits = EightBits::kGivesF32,
       .infer = infer_average,
       .backward = backward_pool<Op::kAvgPoolBackward>,
       .cost = per_input<1>},
      {.op = Op::kAvgPoolBackward,
       .text = {"dy[N,C] -> dx[N,H,W,C]", "", "Gradient of avg_pool."},
       .infer = infer_average_backward,
       .cost = per_output<1>},
  };
}

}  // namespace mlx::graph
