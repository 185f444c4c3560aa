// Batch norm over images or rows (training and inference forms, and that over the rows of several ranks), layer norm
// and RMS norm, with their gradients.

#include "graph/rule.h"

namespace mlx::graph {
namespace {

using Ids = std::vector<ValueId>;

// The size of the last dimension. Checks that the inputs from `first` to the last are f32 vectors of that size.
std::int64_t channels(const Rule& rule, std::size_t first, std::size_t end) {
  const std::int64_t c = rule.size(0, -1);
  for (std::size_t i = first; i < end; ++i) {
    rule.require_dtype(i, DType::kF32);
    rule.require_vector(i, c);
  }
  return c;
}

void require_attrs(const Rule& rule, const Attrs& attrs) {
  rule.require(attrs.activation != Activation::kGelu, "only relu and relu6 can be fused");
  rule.require(attrs.epsilon >= 0, "epsilon must not be negative");
}

void require_training_norm(const Rule& rule, const Attrs& attrs) {
  rule.require_real(0);
  require_attrs(rule, attrs);
  rule.require(attrs.momentum >= 0 && attrs.momentum <= 1, "momentum must be between 0 and 1");
}

Ids training_outputs(Rule& rule, const Attrs& attrs, const Ids& inputs, std::int64_t c) {
  rule.require_written_in_place(3);
  rule.require_written_in_place(4);
  const ValueId y = rule.out({}, stored_type(rule, attrs), rule.dims(0));
  const ValueId mean = rule.out("saved_mean", DType::kF32, {Dim::of(c)});
  return {y, mean, rule.out("saved_rstd", DType::kF32, {Dim::of(c)}), inputs[3], inputs[4]};
}

Ids infer_batch_norm(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kBatchNorm, inputs, name);
  require_training_norm(rule, attrs);
  return training_outputs(rule, attrs, inputs, channels(rule, 1, 5));
}

std::int64_t require_gradient(const Rule& rule, const Attrs& attrs, std::size_t beta) {
  rule.require_real(0);
  rule.require_real(1);
  require_attrs(rule, attrs);
  rule.require_shape(1, rule.dims(0));
  const std::int64_t c = channels(rule, 2, 5);
  rule.require(rule.has(beta) == (attrs.activation != Activation::kNone),
               "beta is needed with an activation, and only then");
  if (rule.has(beta)) channels(rule, beta, beta + 1);
  return c;
}

Ids infer_batch_norm_backward(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*,
                              const std::string& name) {
  Rule rule(graph, Op::kBatchNormBackward, inputs, name);
  const std::int64_t c = require_gradient(rule, attrs, 5);
  const ValueId dx = rule.out({}, stored_type(rule, attrs), rule.dims(0));
  const ValueId dgamma = rule.out("gamma", DType::kF32, {Dim::of(c)});
  return {dx, dgamma, rule.out("beta", DType::kF32, {Dim::of(c)})};
}

Ids infer_batch_norm_inference(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*,
                               const std::string& name) {
  Rule rule(graph, Op::kBatchNormInference, inputs, name);
  rule.require_f32();
  require_attrs(rule, attrs);
  channels(rule, 1, 5);
  return {rule.out({}, DType::kF32, rule.dims(0))};
}

Ids backward_batch_norm(Graph& graph, const Node& node, const Ids& gradients) {
  // Backward derives from x, which it reads anyway, what the activation passed; it does not read y again.
  const ValueId beta = node.attrs.activation != Activation::kNone ? node.inputs[2] : kNone;
  const Ids d = graph.add(Op::kBatchNormBackward, node.attrs,
                          {node.inputs[0], gradients[0], node.inputs[1], node.outputs[1], node.outputs[2], beta},
                          node.name + ".backward");
  return {d[0], d[1], d[2], kNone, kNone};
}

// What each rank gives for its channels.
Dims of_rank(std::int64_t channels) {
  return {Dim::of(1), Dim::of(2), Dim::of(channels)};
}

// Checks input 5, what all of them have given.
void require_gathered(const Rule& rule, std::int64_t channels) {
  rule.require_dtype(5, DType::kF32);
  const Dims& dims = rule.dims(5);
  rule.require(dims.size() == 3 && !dims[0].symbolic() && dims[1] == Dim::of(2) && dims[2] == Dim::of(channels),
               "what ranks give must be [ranks,2,channels]");
}

Ids infer_statistics(Graph& graph, const Attrs&, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kBatchNormStatistics, inputs, name);
  rule.require_real(0);
  return {rule.out({}, DType::kF32, of_rank(channels(rule, 0, 0)))};
}

Ids infer_synchronised(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kBatchNormSynchronised, inputs, name);
  require_training_norm(rule, attrs);
  const std::int64_t c = channels(rule, 1, 5);
  require_gathered(rule, c);
  return training_outputs(rule, attrs, inputs, c);
}

Ids infer_gradient_sums(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kBatchNormGradientSums, inputs, name);
  const std::int64_t c = require_gradient(rule, attrs, 5);
  const ValueId sums = rule.out({}, DType::kF32, of_rank(c));
  const ValueId dgamma = rule.out("gamma", DType::kF32, {Dim::of(c)});
  return {sums, dgamma, rule.out("beta", DType::kF32, {Dim::of(c)})};
}

Ids infer_synchronised_backward(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*,
                                const std::string& name) {
  Rule rule(graph, Op::kBatchNormSynchronisedBackward, inputs, name);
  require_gathered(rule, require_gradient(rule, attrs, 6));
  return {rule.out({}, stored_type(rule, attrs), rule.dims(0))};
}

// The statistics are a function of x as well: that is in dx, as in batch norm itself.
Ids backward_synchronised(Graph& graph, const Node& node, const Ids& gradients) {
  Ids inputs{node.inputs[0], gradients[0], node.inputs[1], node.outputs[1], node.outputs[2]};
  const ValueId beta = node.attrs.activation != Activation::kNone ? node.inputs[2] : kNone;
  const std::string name = node.name + ".backward";
  Attrs own, gather;
  own.activation = node.attrs.activation;
  gather.groups = graph.value(node.inputs[5]).dims[0].size;
  inputs.push_back(beta);
  const Ids sums = graph.add(Op::kBatchNormGradientSums, own, inputs, name + ".sums");
  inputs.back() = graph.add(Op::kAllGather, gather, {sums[0]}, name + ".all")[0];
  inputs.push_back(beta);
  Attrs attrs = node.attrs;
  attrs.momentum = Attrs{}.momentum;
  const ValueId dx = graph.add(Op::kBatchNormSynchronisedBackward, attrs, inputs, name)[0];
  return {dx, sums[1], sums[2], kNone, kNone, kNone};
}

// A norm's outputs; with a residual also the sum that is normalised.
Ids with_sum(Rule& rule, std::size_t residual, Ids outputs) {
  if (!rule.has(residual)) return outputs;
  rule.require_real(residual);
  rule.require_shape(residual, rule.dims(0));
  outputs.push_back(rule.out("sum", DType::kF32, rule.dims(0)));
  return outputs;
}

void require_dsum(const Rule& rule, std::size_t dsum) {
  if (!rule.has(dsum)) return;
  rule.require_dtype(dsum, DType::kF32);
  rule.require_shape(dsum, rule.dims(0));
}

// The inputs of a norm's gradient; `inputs` are those without a residual. With a residual the gradient is that of the
// sum, which goes to both x and the residual.
Ids with_dsum(const Node& node, Ids inputs, const Ids& gradients) {
  if (!adds(node)) return inputs;
  const std::size_t sum = op_def(node.op).addend;
  inputs[0] = node.outputs[sum];
  if (gradients[sum] != kNone) inputs.push_back(gradients[sum]);
  return inputs;
}

template <int kOperations>
Cost norm_cost(const Node& node, std::span<const kernels::Shape> inputs, std::span<const kernels::Shape> outputs) {
  return with_bytes((kOperations + (adds(node) ? 1 : 0)) * count_of(outputs[0]), inputs, outputs);
}

Ids infer_layer_norm(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kLayerNorm, inputs, name);
  rule.require_dtype(0, DType::kF32);
  rule.require(attrs.epsilon >= 0, "epsilon must not be negative");
  channels(rule, 1, 3);
  const ValueId y = rule.out({}, stored_type(rule, attrs), rule.dims(0));
  const ValueId mean = rule.out("saved_mean", DType::kF32, without_last(rule.dims(0)));
  const ValueId rstd = rule.out("saved_rstd", DType::kF32, without_last(rule.dims(0)));
  return with_sum(rule, 3, {y, mean, rstd});
}

Ids infer_layer_norm_backward(Graph& graph, const Attrs&, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kLayerNormBackward, inputs, name);
  for (const std::size_t i : {0, 2, 3, 4}) rule.require_dtype(i, DType::kF32);
  rule.require_real(1);
  rule.require_shape(1, rule.dims(0));
  const std::int64_t c = channels(rule, 2, 3);
  rule.require_shape(3, without_last(rule.dims(0)));
  rule.require_shape(4, without_last(rule.dims(0)));
  require_dsum(rule, 5);
  const ValueId dx = rule.out({}, DType::kF32, rule.dims(0));
  const ValueId dgamma = rule.out("gamma", DType::kF32, {Dim::of(c)});
  return {dx, dgamma, rule.out("beta", DType::kF32, {Dim::of(c)})};
}

Ids backward_layer_norm(Graph& graph, const Node& node, const Ids& gradients) {
  const Ids inputs =
      with_dsum(node, {node.inputs[0], gradients[0], node.inputs[1], node.outputs[1], node.outputs[2]}, gradients);
  const Ids d = graph.add(Op::kLayerNormBackward, node.attrs, inputs, node.name + ".backward");
  return {d[0], d[1], d[2], d[0]};
}

Ids infer_rms_norm(Graph& graph, const Attrs& attrs, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kRmsNorm, inputs, name);
  rule.require_dtype(0, DType::kF32);
  rule.require(attrs.epsilon >= 0, "epsilon must not be negative");
  channels(rule, 1, 2);
  const ValueId y = rule.out({}, stored_type(rule, attrs), rule.dims(0));
  return with_sum(rule, 2, {y, rule.out("saved_rstd", DType::kF32, without_last(rule.dims(0)))});
}

Ids infer_rms_norm_backward(Graph& graph, const Attrs&, const Ids& inputs, const Dims*, const std::string& name) {
  Rule rule(graph, Op::kRmsNormBackward, inputs, name);
  for (const std::size_t i : {0, 2, 3}) rule.require_dtype(i, DType::kF32);
  rule.require_real(1);
  rule.require_shape(1, rule.dims(0));
  const std::int64_t c = channels(rule, 2, 3);
  rule.require_shape(3, without_last(rule.dims(0)));
  require_dsum(rule, 4);
  const ValueId dx = rule.out({}, DType::kF32, rule.dims(0));
  return {dx, rule.out("gamma", DType::kF32, {Dim::of(c)})};
}

Ids backward_rms_norm(Graph& graph, const Node& node, const Ids& gradients) {
  const Ids inputs = with_dsum(node, {node.inputs[0], gradients[0], node.inputs[1], node.outputs[1]}, gradients);
  const Ids d = graph.add(Op::kRmsNormBackward, node.attrs, inputs, node.name + ".backward");
  return {d[0], d[1], d[0]};
}

// Ones for gamma and the running variance.
StartValue start_of_batch_norm(const Node&, std::size_t input, const kernels::Shape&) {
  return {input == 1 || input == 4 ? StartValue::kOne : StartValue::kZero};
}

}  // namespace

std::vector<OpDef> batch_norm_ops() {
  return {
      {.op = Op::kBatchNorm,
       .text = {"x real[...,C], gamma[C], beta[C], running_mean[C], running_var[C] -> y real[...,C], "
                "saved_mean[C], saved_rstd[C], running_mean[C], running_var[C]",
                "epsilon momentum activation output",
                "Batch normalization over all but the last dimension in training (Ioffe & Szegedy 2015). The "
                "running statistics are states, written in place: momentum is the weight of the new ones, the "
                "variance is the unbiased one."},
       .reads_half = 1u << 0,
       .stores_half = true,
       .fuses = bit_of(Activation::kRelu) | bit_of(Activation::kRelu6),
       .infer = infer_batch_norm,
       .backward = backward_batch_norm,
       .cost = per_output<8>,
       .start = start_of_batch_norm},
      {.op = Op::kBatchNormBackward,
       .text = {"x real[...,C], dy real[...,C], gamma[C], saved_mean[C], saved_rstd[C], (beta[C]) -> dx "
                "real[...,C], dgamma[C], dbeta[C]",
                "activation output", "Gradients of batch normalization; beta is needed with an activation."},
       .reads_half = (1u << 0) | (1u << 1),
       .stores_half = true,
       .infer = infer_batch_norm_backward,
       .cost = per_output<10>},
      {.op = Op::kBatchNormInference,
       .text = {"x[...,C], gamma[C], beta[C], running_mean[C], running_var[C] -> y[...,C]", "epsilon activation",
                "Batch normalization with the running statistics: y = act(gamma (x - running_mean) / "
                "sqrt(running_var + epsilon) + beta)."},
       .fuses = bit_of(Activation::kRelu) | bit_of(Activation::kRelu6),
       .infer = infer_batch_norm_inference,
       .cost = per_output<2>,
       .start = start_of_batch_norm},
      {.op = Op::kBatchNormStatistics,
       .text =
           {"x real[...,C] -> y[1,2,C]", "",
            "The means of x over all but the last dimension, and the sums of the squares of what is off them: what a "
            "rank gives for batch_norm_synchronised."},
       .reads_half = 1u << 0,
       .infer = infer_statistics,
       .cost = per_input<3>},
      {.op = Op::kBatchNormSynchronised,
       .text =
           {"x real[...,C], gamma[C], beta[C], running_mean[C], running_var[C], statistics[R,2,C] -> y real[...,C], "
            "saved_mean[C], saved_rstd[C], running_mean[C], running_var[C]",
            "epsilon momentum activation output",
            "batch_norm over the rows of R ranks that have equally many, with the batch_norm_statistics of each."},
       .reads_half = 1u << 0,
       .stores_half = true,
       .fuses = bit_of(Activation::kRelu) | bit_of(Activation::kRelu6),
       .infer = infer_synchronised,
       .backward = backward_synchronised,
       .cost = per_output<5>,
       .start = start_of_batch_norm},
      {.op = Op::kBatchNormGradientSums,
       .text =
           {"x real[...,C], dy real[...,C], gamma[C], saved_mean[C], saved_rstd[C], (beta[C]) -> y[1,2,C], dgamma[C], "
            "dbeta[C]",
            "activation",
            "A rank's sums of dy, and of dy times the normalized x: what it gives for "
            "batch_norm_synchronised_backward; and the same as gradients of gamma and beta."},
       .reads_half = (1u << 0) | (1u << 1),
       .infer = infer_gradient_sums,
       .cost = per_input<4>},
      {.op = Op::kBatchNormSynchronisedBackward,
       .text = {"x real[...,C], dy real[...,C], gamma[C], saved_mean[C], saved_rstd[C], sums[R,2,C], (beta[C]) -> dx "
                "real[...,C]",
                "activation output", "The gradient of batch_norm_synchronised; beta is needed with an activation."},
       .reads_half = (1u << 0) | (1u << 1),
       .stores_half = true,
       .infer = infer_synchronised_backward,
       .cost = per_output<6>},
  };
}

std::vector<OpDef> layer_norm_ops() {
  return {
      {.op = Op::kLayerNorm,
       .text = {"x[...,D], gamma[D], beta[D], (residual real[...,D]) -> y real[...,D], saved_mean[...], "
                "saved_rstd[...], (sum[...,D])",
                "epsilon output",
                "Layer normalization over the last dimension (Ba et al. 2016). With a residual, which GPUs take, "
                "it normalizes sum = x + residual."},
       .in_place = (1u << 0) | (1u << 3),
       .in_place_output = 3,
       .reads_half = 1u << 3,
       .stores_half = true,
       .addend = 3,
       .infer = infer_layer_norm,
       .backward = backward_layer_norm,
       .cost = norm_cost<8>,
       .start = start_of_scale},
      {.op = Op::kLayerNormBackward,
       .text = {"x[...,D], dy real[...,D], gamma[D], saved_mean[...], saved_rstd[...], (dsum[...,D]) -> "
                "dx[...,D], dgamma[D], dbeta[D]",
                "", "Gradients of layer normalization; dsum, the gradient of the other uses of sum, is added to dx."},
       .in_place = 1u << 5,
       .reads_half = 1u << 1,
       .addend = 5,
       .infer = infer_layer_norm_backward,
       .cost = norm_cost<12>},
  };
}

std::vector<OpDef> rms_norm_ops() {
  return {
      {.op = Op::kRmsNorm,
       .text = {"x[...,D], gamma[D], (residual real[...,D]) -> y real[...,D], saved_rstd[...], (sum[...,D])",
                "epsilon output",
                "RMS normalization over the last dimension (Zhang & Sennrich 2019). residual and sum as for "
                "layer_norm."},
       .in_place = (1u << 0) | (1u << 2),
       .in_place_output = 2,
       .reads_half = 1u << 2,
       .stores_half = true,
       .addend = 2,
       .infer = infer_rms_norm,
       .backward = backward_rms_norm,
       .cost = norm_cost<5>,
       .start = start_of_scale},
      {.op = Op::kRmsNormBackward,
       .text = {"x[...,D], dy real[...,D], gamma[D], saved_rstd[...], (dsum[...,D]) -> dx[...,D], dgamma[D]", "",
                "Gradients of RMS normalization; dsum as for layer_norm_backward."},
       .in_place = 1u << 4,
       .reads_half = 1u << 1,
       .addend = 4,
       .infer = infer_rms_norm_backward,
       .cost = norm_cost<10>},
  };
}

}  // namespace mlx::graph
