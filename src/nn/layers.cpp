// Appends layers to a network. Shapes are checked here first, so that messages speak of layers and images.

#include "nn/layers.h"

#include <algorithm>

#include "base/error.h"

namespace mlx::nn {
namespace {

using graph::Attrs;
using graph::Dim;
using graph::Op;
using graph::ValueId;
using kernels::Activation;

constexpr std::int64_t kMostWeights = std::int64_t{1} << 31;  // in one layer

void check_weights(std::initializer_list<std::int64_t> sizes) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) {
    if (__builtin_mul_overflow(count, size, &count) || count > kMostWeights) {
      fail(ErrorKind::kUsage, "it would have more than {} weights", kMostWeights);
    }
  }
}

void require_image(const Network& network, const char* what) {
  if (!network.is_image()) {
    fail(ErrorKind::kUsage, "{} needs images of height x width x channels, its input has shape {}", what,
         network.shape());
  }
}

// TensorFlow's SAME padding: the output has size ceil(size / stride).
void pad_same(Attrs& attrs, std::int64_t height, std::int64_t width) {
  const std::int64_t sizes[2] = {height, width};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t outputs = (sizes[axis] + attrs.stride[axis] - 1) / attrs.stride[axis];
    const std::int64_t pad =
        std::max<std::int64_t>(0, (outputs - 1) * attrs.stride[axis] + attrs.kernel[axis] - sizes[axis]);
    attrs.pad[2 * axis] = pad / 2;
    attrs.pad[2 * axis + 1] = pad - pad / 2;
  }
}

// Kernel, stride and padding over the network's images. Throws if the window does not fit.
Attrs window(const Network& network, const char* what, std::int64_t kernel, std::int64_t stride, Padding padding) {
  const std::int64_t height = network.dims()[1].size, width = network.dims()[2].size;
  Attrs attrs;
  attrs.kernel = {kernel, kernel};
  attrs.stride = {stride, stride};
  if (padding == Padding::kSame) pad_same(attrs, height, width);
  if (padding == Padding::kHalf) attrs.pad.fill(kernel / 2);
  if (height + attrs.pad[0] + attrs.pad[1] < kernel || width + attrs.pad[2] + attrs.pad[3] < kernel) {
    fail(ErrorKind::kUsage, "a {} of {}x{} does not fit its input of {}", what, kernel, kernel, network.shape());
  }
  return attrs;
}

void add_batch_norm(Network& network, const std::string& name) {
  graph::Graph& graph = network.graph;
  const graph::Dims channels{network.dims().back()};
  const ValueId gamma = graph.parameter(name + ".gamma", channels), beta = graph.parameter(name + ".beta", channels);
  const ValueId mean = graph.state(name + ".running_mean", channels),
                var = graph.state(name + ".running_var", channels);
  network.x = graph.add(Op::kBatchNorm, {}, {network.x, gamma, beta, mean, var}, name)[0];
}

void add_activation(Network& network, Activation activation, const std::string& name) {
  graph::Graph& graph = network.graph;
  if (activation == Activation::kRelu) network.x = graph.add(Op::kRelu, {}, {network.x}, name + ".relu")[0];
  if (activation == Activation::kRelu6) network.x = graph.add(Op::kRelu6, {}, {network.x}, name + ".relu6")[0];
  if (activation == Activation::kGelu) network.x = graph.add(Op::kGelu, {}, {network.x}, name + ".gelu")[0];
}

// Adds the convolution or linear operation `op` with its weights, then norm and activation as separate nodes; passes
// fuse them.
void add_weighted(Network& network, Op op, const Attrs& attrs, const graph::Dims& weight_dims, const std::string& name,
                  Norm norm, Activation activation) {
  graph::Graph& graph = network.graph;
  const ValueId weight = graph.parameter(name + ".weight", weight_dims);
  std::vector<ValueId> inputs{network.x, weight};
  if (norm == Norm::kNone) inputs.push_back(graph.parameter(name + ".bias", {weight_dims[0]}));
  network.x = graph.add(op, attrs, std::move(inputs), name)[0];
  if (norm == Norm::kBatch) add_batch_norm(network, name + ".norm");
  add_activation(network, activation, name);
}

}  // namespace

std::string Network::shape() const {
  std::string out;
  for (std::size_t i = 1; i < dims().size(); ++i) out += fmt::format("{}{}", i > 1 ? "x" : "", dims()[i].size);
  return out;
}

Network start(const InputSpec& input) {
  Network network;
  const Dim batch = Dim::sym(network.graph.symbol("batch"));
  CHECK(input.outputs > 0);
  if (input.kind == InputKind::kFeatures) {
    CHECK(input.features > 0);
    network.x = network.graph.input(input.name, kernels::DType::kF32, {batch, Dim::of(input.features)});
    return network;
  }
  CHECK(input.kind == InputKind::kImages && input.height > 0 && input.width > 0 && input.channels > 0);
  network.x = network.graph.input(input.name, kernels::DType::kF32,
                                  {batch, Dim::of(input.height), Dim::of(input.width), Dim::of(input.channels)});
  return network;
}

void add_conv(Network& network, const ConvLayer& layer) {
  require_image(network, "a convolution");
  const std::int64_t channels = network.dims()[3].size;
  if (channels % layer.groups != 0 || layer.filters % layer.groups != 0) {
    fail(ErrorKind::kUsage, "{} groups do not divide both the {} channels of its input ({}) and its {} filters",
         layer.groups, channels, network.shape(), layer.filters);
  }
  check_weights({layer.filters, layer.kernel, layer.kernel, channels / layer.groups});
  Attrs attrs = window(network, "kernel", layer.kernel, layer.stride, layer.padding);
  attrs.groups = layer.groups;
  const graph::Dims weight{Dim::of(layer.filters), Dim::of(layer.kernel), Dim::of(layer.kernel),
                           Dim::of(channels / layer.groups)};
  const std::string name = layer.name.empty() ? fmt::format("conv{}", ++network.convs) : layer.name;
  add_weighted(network, Op::kConv2d, attrs, weight, name, layer.norm, layer.activation);
}

void add_dense(Network& network, const DenseLayer& layer) {
  if (network.is_image()) {
    fail(ErrorKind::kUsage,
         "a dense layer needs a flat input, its input has shape {}: put {{ flatten = true }} or {{ pool = \"global\" "
         "}} before it",
         network.shape());
  }
  const std::int64_t inputs = network.dims()[1].size;
  check_weights({layer.units, inputs});
  add_weighted(network, Op::kLinear, {}, {Dim::of(layer.units), Dim::of(inputs)},
               fmt::format("dense{}", ++network.denses), layer.norm, layer.activation);
}

void add_norm(Network& network, Activation activation) {
  const std::string name = fmt::format("norm{}", ++network.norms);
  add_batch_norm(network, name);
  add_activation(network, activation, name);
}

void add_max_pool(Network& network, std::int64_t size, std::int64_t stride, Padding padding) {
  require_image(network, "pooling");
  const Attrs attrs = window(network, "window", size, stride, padding);
  network.x = network.graph.add(Op::kMaxPool, attrs, {network.x}, fmt::format("pool{}", ++network.pools))[0];
}

void add_global_pool(Network& network) {
  require_image(network, "pooling");
  network.x = network.graph.add(Op::kAvgPool, {}, {network.x}, fmt::format("pool{}", ++network.pools))[0];
}

void add_dropout(Network& network, float rate) {
  if (rate == 0) return;
  Attrs attrs;
  attrs.rate = rate;
  attrs.stream = static_cast<std::uint64_t>(++network.dropouts);
  network.x = network.graph.add(Op::kDropout, attrs, {network.x}, fmt::format("dropout{}", network.dropouts))[0];
}

void add_stochastic_depth(Network& network, float rate, const std::string& name) {
  if (rate == 0) return;
  Attrs attrs;
  attrs.rate = rate;
  attrs.whole_example = true;
  attrs.stream = static_cast<std::uint64_t>(++network.dropouts);
  network.x = network.graph.add(Op::kDropout, attrs, {network.x}, name)[0];
}

void add_sum(Network& network, ValueId other, Activation activation, const std::string& name) {
  network.x = network.graph.add(Op::kAdd, {}, {network.x, other}, name)[0];
  add_activation(network, activation, name);
}

void add_flatten(Network& network) {
  if (!network.is_image()) fail(ErrorKind::kUsage, "its input of {} is flat already", network.shape());
  std::int64_t count = 1;
  for (std::size_t i = 1; i < 4; ++i) {
    if (__builtin_mul_overflow(count, network.dims()[i].size, &count))
      fail(ErrorKind::kUsage, "its input of {} is too large", network.shape());
  }
  const Dim batch = network.dims()[0];
  network.x = network.graph.add_shaped(Op::kReshape, {}, {network.x}, {batch, Dim::of(count)}, "flatten")[0];
}

void add_classifier(Network& network, std::int64_t outputs) {
  if (network.is_image()) {
    fail(ErrorKind::kUsage,
         "the last layer gives {}, the classifier needs a flat input: end with {{ flatten = true }} or {{ pool = "
         "\"global\" }}",
         network.shape());
  }
  const std::int64_t inputs = network.dims()[1].size;
  check_weights({outputs, inputs});
  add_weighted(network, Op::kLinear, {}, {Dim::of(outputs), Dim::of(inputs)}, "classifier", Norm::kNone,
               Activation::kNone);
  network.graph.values[static_cast<std::size_t>(network.x)].name = "logits";
  network.graph.outputs = {network.x};
}

}  // namespace mlx::nn
