// Two-dimensional convolution of NHWC images, f32, half and quantized, and its gradients.

#include "graph/rule.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

std::int64_t output_size(const Rule& rule, std::int64_t size, const Attrs& attrs, std::size_t axis) {
  const std::int64_t before = attrs.pad[2 * axis], after = attrs.pad[2 * axis + 1];
  rule.require(attrs.kernel[axis] >= 1 && attrs.kernel[axis] <= kMaxWindow && attrs.stride[axis] >= 1 &&
                   attrs.stride[axis] <= kMaxWindow && before >= 0 && after >= 0 && before < attrs.kernel[axis] &&
                   after < attrs.kernel[axis],
               "kernel and stride must be at least 1, and padding less than the kernel");
  const std::int64_t span = size + before + after - attrs.kernel[axis];
  rule.require(span >= 0, "the kernel is larger than the padded image");
  return span / attrs.stride[axis] + 1;
}

// The output's dims for x and w; in the backward rules dy must have this shape.
Dims output_dims(const Rule& rule, const Attrs& attrs, const Dims& x, const Dims& w) {
  rule.require(x.size() == 4 && w.size() == 4, "images and weights must have 4 dimensions");
  for (std::size_t i = 0; i < 4; ++i) {
    rule.require((i == 0 || (!x[i].symbolic() && x[i].size >= 1)) && !w[i].symbolic(),
                 "only the number of images may be symbolic");
  }
  rule.require(w[1].size == attrs.kernel[0] && w[2].size == attrs.kernel[1],
               "the weights do not have the kernel's size");
  rule.require(attrs.groups >= 1 && w[0].size % attrs.groups == 0 && x[3].size % attrs.groups == 0,
               "groups must divide the channels");
  rule.require(x[3].size / attrs.groups == w[3].size, "the weights expect another number of channels");
  return {x[0], Dim::of(output_size(rule, x[1].size, attrs, 0)), Dim::of(output_size(rule, x[2].size, attrs, 1)), w[0]};
}

Ids infer_conv2d(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kConv2d, inputs, name);
  const Dims y = output_dims(rule, attrs, rule.dims(0), rule.dims(1));
  return {rule.out({}, product_type(rule, attrs, {y[3]}), y)};
}

Ids infer_conv2d_backward_data(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims* given,
                               const std::string& name) {
  Rule rule(graph, Op::kConv2dBackwardData, inputs, name);
  rule.require(given != nullptr, "the output's shape must be given");
  rule.require(output_dims(rule, attrs, *given, rule.dims(1)) == rule.dims(0),
               "the gradient does not have the output's shape");
  return {rule.out({}, gradient_type(rule, attrs), *given)};
}

Ids infer_conv2d_backward_weights(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*,
                                  const std::string& name) {
  Rule rule(graph, Op::kConv2dBackwardWeights, inputs, name);
  require_same_reals(rule);
  rule.require(attrs.groups >= 1, "groups must be at least 1");
  const Dim out = Dim::of(rule.size(1, -1));
  const Dims w{out, Dim::of(attrs.kernel[0]), Dim::of(attrs.kernel[1]), Dim::of(rule.size(0, -1) / attrs.groups)};
  rule.require(output_dims(rule, attrs, rule.dims(0), w) == rule.dims(1),
               "the gradient does not have the output's shape");
  const ValueId dw = rule.out({}, DType::kF32, w);
  return {dw, rule.out("bias", DType::kF32, {out})};
}

Ids backward_conv2d(Graph& graph, const Node& node, const Ids& gradients) {
  const ValueId dy = before_activation(graph, node, gradients[0]);
  Attrs attrs = node.attrs;
  attrs.activation = Activation::kNone;
  const bool bias = node.inputs.size() > 2 && node.inputs[2] != kNone;
  const Dims x = graph.value(node.inputs[0]).dims;
  const ValueId dx =
      graph.add_shaped(Op::kConv2dBackwardData, attrs, {dy, node.inputs[1]}, x, node.name + ".backward_data")[0];
  const Ids dw = graph.add(Op::kConv2dBackwardWeights, attrs, {node.inputs[0], dy}, node.name + ".backward_weights");
  return {dx, dw[0], bias ? dw[1] : kNone};
}

// Every output element takes KH · KW · C/groups products, in each of the three operations.
double products(const kernels::Shape& y, const kernels::Shape& w) {
  return 2.0 * count_of(y) * static_cast<double>(w.dims[1] * w.dims[2] * w.dims[3]);
}
Cost cost_conv2d(const Node&, std::span<const kernels::Shape> inputs, std::span<const kernels::Shape> outputs) {
  return with_bytes(products(outputs[0], inputs[1]), inputs, outputs);
}
Cost cost_conv2d_backward_data(const Node&, std::span<const kernels::Shape> inputs,
                               std::span<const kernels::Shape> outputs) {
  return with_bytes(products(inputs[0], inputs[1]), inputs, outputs);
}
Cost cost_conv2d_backward_weights(const Node&, std::span<const kernels::Shape> inputs,
                                  std::span<const kernels::Shape> outputs) {
  return with_bytes(products(inputs[1], outputs[0]), inputs, outputs);
}

// w[O,KH,KW,C/groups]: fan-in KH·KW·C/groups, fan-out KH·KW·O/groups.
StartValue start_of_conv(const Node& node, std::size_t input, const kernels::Shape& shape) {
  if (input != 1) return {};
  const auto outputs = static_cast<double>(shape.dims[0]), window = static_cast<double>(shape.dims[1] * shape.dims[2]);
  return {StartValue::kWeights, static_cast<double>(shape.dims[3]) * window,
          outputs * window / static_cast<double>(node.attrs.groups)};
}

}  // namespace

std::vector<OpDef> conv_ops() {
  return {
      {.op = Op::kConv2d,
       .text = {"x real|byte[N,H,W,C], w real|s8[O,KH,KW,C/groups], (b[O]), (w_scales[O]) -> y "
                "real|byte[N,OH,OW,O]",
                "kernel stride pad groups activation output scale_x scale_y tf32",
                "Two-dimensional convolution (cross-correlation) with zero padding: OH = (H + top + bottom - KH) "
                "/ stride + 1, rounded down. Padding is less than the kernel. groups divides C and O; with C "
                "groups it is a depthwise convolution. Eight bits as for linear."},
       .stores_half = true,
       .product = true,
       .layer = true,
       .eight_bits = EightBits::kLayer,
       .fuses = bit_of(Activation::kRelu) | bit_of(Activation::kRelu6),
       .infer = infer_conv2d,
       .backward = backward_conv2d,
       .cost = cost_conv2d,
       .start = start_of_conv},
      {.op = Op::kConv2dBackwardData,
       .text = {"dy real[N,OH,OW,O], w real[O,KH,KW,C/groups] -> dx real[N,H,W,C]",
                "kernel stride pad groups output tf32", "Gradient of a convolution with respect to its input."},
       .stores_half = true,
       .product = true,
       .infer = infer_conv2d_backward_data,
       .cost = cost_conv2d_backward_data},
      {.op = Op::kConv2dBackwardWeights,
       .text = {"x real[N,H,W,C], dy real[N,OH,OW,O] -> dw[O,KH,KW,C/groups], (db[O])", "kernel stride pad groups tf32",
                "Gradients of a convolution with respect to its weights and bias."},
       .optional_outputs = 1u << 1,
       .product = true,
       .infer = infer_conv2d_backward_weights,
       .cost = cost_conv2d_backward_weights},
  };
}

}  // namespace mlx::graph
