// Layers that families are made of: each appends its nodes to the graph of a network under construction.
//
// Every function throws Error{kUsage} that says what does not fit what, without a place; the family's reader adds file
// and line. Weights: convN.weight [O,KH,KW,I/groups], denseN.weight [O,I]; a bias only where no norm follows.
#pragma once

#include <string>

#include "nn/family.h"

namespace mlx::nn {

enum class Norm { kNone, kBatch };

struct Network {
  graph::Graph graph;
  graph::ValueId x = graph::kNone;  // what the last layer gave: [batch,H,W,C] or [batch,N]
  int convs = 0, denses = 0, pools = 0, dropouts = 0;

  const graph::Dims& dims() const { return graph.value(x).dims; }
  bool is_image() const { return dims().size() == 4; }
  std::string shape() const;  // of one example: "14x14x32"
};

struct ConvLayer {
  std::int64_t filters = 0, kernel = 3, stride = 1, groups = 1;
  bool same = true;  // padded so that the output has ceil(size / stride); the odd pixel below and right
  Norm norm = Norm::kNone;
  kernels::Activation activation = kernels::Activation::kRelu;
};
struct DenseLayer {
  std::int64_t units = 0;
  Norm norm = Norm::kNone;
  kernels::Activation activation = kernels::Activation::kRelu;
};

Network start(const InputSpec& input);  // images or features
void add_conv(Network& network, const ConvLayer& layer);
void add_dense(Network& network, const DenseLayer& layer);
void add_max_pool(Network& network, std::int64_t size, std::int64_t stride, bool same);
void add_global_pool(Network& network);
void add_dropout(Network& network, float rate);
void add_flatten(Network& network);
// The final dense layer "classifier" and the output "logits".
void add_classifier(Network& network, std::int64_t outputs);

}  // namespace mlx::nn
