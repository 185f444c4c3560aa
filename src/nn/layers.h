// The layers that families are built from. Each function appends its nodes to the graph of a network under
// construction.
//
// Every function throws Error{kUsage} if something does not fit, without a location; the family's reader adds file and
// line. Weights: convN.weight [O,KH,KW,I/groups], denseN.weight [O,I]; a layer has a bias only if no norm follows. A
// layer's norm is NAME.norm, its activation NAME.relu and so on.
#pragma once

#include <string>
#include <vector>

#include "nn/family.h"

namespace mlx::nn {

enum class Norm { kNone, kBatch };
// kSame: the output has size ceil(size / stride), and an odd pixel of padding goes below and right. kHalf: half the
// kernel on every side, as in networks from PyTorch.
enum class Padding { kNone, kSame, kHalf };

struct Network {
  graph::Graph graph;
  graph::ValueId x = graph::kNone;  // the last layer's output: [batch,H,W,C] or [batch,N]
  int convs = 0, denses = 0, norms = 0, pools = 0, dropouts = 0;
  std::vector<std::string> zeros;  // parameters that start at zero

  const graph::Dims& dims() const { return graph.value(x).dims; }
  bool is_image() const { return dims().size() == 4; }
  std::string shape() const;  // of one example: "14x14x32"
};

struct ConvLayer {
  std::int64_t filters = 0, kernel = 3, stride = 1, groups = 1;
  Padding padding = Padding::kSame;
  Norm norm = Norm::kNone;
  kernels::Activation activation = kernels::Activation::kRelu;
  std::string name{};  // "" for convN
};
struct DenseLayer {
  std::int64_t units = 0;
  Norm norm = Norm::kNone;
  kernels::Activation activation = kernels::Activation::kRelu;
};

Network start(const InputSpec& input);  // images or features
void add_conv(Network& network, const ConvLayer& layer);
void add_dense(Network& network, const DenseLayer& layer);
// A separate batch norm, normN.
void add_norm(Network& network, kernels::Activation activation);
void add_max_pool(Network& network, std::int64_t size, std::int64_t stride, Padding padding);
void add_global_pool(Network& network);
void add_dropout(Network& network, float rate);
// Stochastic depth (Huang et al. 2016): drops the network's x for whole examples. Add it before the sum that ends a
// residual block.
void add_stochastic_depth(Network& network, float rate, const std::string& name);
// x + other, both of the same shape, then the activation.
void add_sum(Network& network, graph::ValueId other, kernels::Activation activation, const std::string& name);
void add_flatten(Network& network);
// The final dense layer "classifier" and the output "logits".
void add_classifier(Network& network, std::int64_t outputs);

}  // namespace mlx::nn
