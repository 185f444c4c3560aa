// family = "mobilenet_v2": inverted residuals with linear bottlenecks (Sandler et al., CVPR 2018, table 2).
//
//   width = 1.0, halvings = 5, stochastic_depth = 0.0, dropout = 0.2
//
// The network halves its images five times. Fewer `halvings` leave out the first ones, for small images (3 for 32x32).
// Widths are multiplied by `width` and rounded to a multiple of 8, as in the authors' code.

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "nn/families.h"

namespace mlx::nn {
namespace {

using kernels::Activation;

constexpr std::int64_t kHalvings = 5;

struct Stage {
  std::int64_t expansion, width, blocks, stride;
};
constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                             {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

// The nearest multiple of 8 that is not smaller by more than a tenth.
std::int64_t rounded(double width) {
  const auto nearest = std::max<std::int64_t>(8, static_cast<std::int64_t>(width + 4) / 8 * 8);
  return static_cast<double>(nearest) < 0.9 * width ? nearest + 8 : nearest;
}

void add_norm_conv(Network& network, const std::string& name, std::int64_t filters, std::int64_t kernel,
                   std::int64_t stride, std::int64_t groups, Activation activation) {
  ConvLayer conv;
  conv.name = name;
  conv.filters = filters;
  conv.kernel = kernel;
  conv.stride = stride;
  conv.groups = groups;
  conv.padding = Padding::kHalf;
  conv.norm = Norm::kBatch;
  conv.activation = activation;
  add_conv(network, conv);
}

struct InvertedResidual {
  std::string name;  // "block3"
  std::int64_t expansion = 1, width = 0, stride = 1;
  float drop = 0;  // rate of stochastic depth
};

void add_inverted_residual(Network& network, const InvertedResidual& block) {
  const graph::ValueId input = network.x;
  const std::int64_t channels = network.dims()[3].size, wide = channels * block.expansion;
  if (block.expansion != 1) add_norm_conv(network, block.name + ".expand", wide, 1, 1, 1, Activation::kRelu6);
  add_norm_conv(network, block.name + ".depthwise", wide, 3, block.stride, wide, Activation::kRelu6);
  add_norm_conv(network, block.name + ".project", block.width, 1, 1, 1, Activation::kNone);
  if (block.stride != 1 || channels != block.width) return;
  add_stochastic_depth(network, block.drop, block.name + ".drop");
  add_sum(network, input, Activation::kNone, block.name + ".add");
}

}  // namespace

void build_mobilenet_v2(TomlReader& model, Network& network, Json& config) {
  const double multiplier = read_width(model, config);
  const std::int64_t halvings = model.integer("halvings", 0, kHalvings, kHalvings);
  config["halvings"] = halvings;
  const float stochastic_depth = read_rate(model, "stochastic_depth", 0, config);
  const float dropout = read_rate(model, "dropout", 0.2, config);

  std::int64_t left_out = kHalvings - halvings;
  const auto stride_of = [&](std::int64_t wanted) {
    if (wanted == 1) return wanted;
    if (left_out > 0) return --left_out, std::int64_t{1};
    if (network.dims()[1].size == 1 && network.dims()[2].size == 1) {
      model.fail_at(model.has("halvings") ? "halvings" : "family",
                    fmt::format("the images are too small for {} halvings: an image of {} would be halved", halvings,
                                network.shape()));
    }
    return wanted;
  };
  int blocks = 0, done = 0;
  for (const Stage& stage : kStages) blocks += static_cast<int>(stage.blocks);
  const auto add = [&](auto layers) { at_key(model, "family", layers); };
  const std::int64_t stem_stride = stride_of(2);
  add([&] { add_norm_conv(network, "stem", rounded(32 * multiplier), 3, stem_stride, 1, Activation::kRelu6); });
  for (const Stage& stage : kStages) {
    for (std::int64_t i = 0; i < stage.blocks; ++i) {
      InvertedResidual block;
      block.name = fmt::format("block{}", ++done);
      block.expansion = stage.expansion;
      block.width = rounded(static_cast<double>(stage.width) * multiplier);
      block.stride = stride_of(i == 0 ? stage.stride : 1);
      block.drop = stochastic_depth * static_cast<float>(done) / static_cast<float>(blocks);
      add([&] { add_inverted_residual(network, block); });
    }
  }
  const std::int64_t last = rounded(1280 * std::max(1.0, multiplier));
  add([&] { add_norm_conv(network, "head", last, 1, 1, 1, Activation::kRelu6); });
  add_global_pool(network);
  add_dropout(network, dropout);
}

}  // namespace mlx::nn
