// family = "resnet": residual networks (He et al., CVPR 2016).
//
//   depth = 20, stem = "cifar", width = 1.0, stochastic_depth = 0.0, dropout = 0.0, zero_init_residual = false
//
// Depths 20, 32, 44 and 56 are those of section 4.2, for small images: three stages of basic blocks with widths 16, 32
// and 64. Depths 18, 34 (basic blocks), 50, 101 and 152 (bottlenecks, with the stride in the 3x3 convolution) are those
// of table 1: four stages, starting at width 64. A shortcut is the identity, or a 1x1 convolution with batch norm if
// the block changes the shape (option B). The last gamma of each block can start at zero (Goyal et al. 2017).

#include <array>
#include <cmath>

#include "base/json.h"
#include "nn/families.h"

namespace mlx::nn {
namespace {

using kernels::Activation;

struct Variant {
  std::int64_t depth;
  const char* stem;
  bool bottleneck;
  std::int64_t width;  // of the first stage; each further stage doubles it
  std::array<int, 4> blocks;
};
constexpr Variant kVariants[] = {
    {18, "imagenet", false, 64, {2, 2, 2, 2}},  {20, "cifar", false, 16, {3, 3, 3, 0}},
    {32, "cifar", false, 16, {5, 5, 5, 0}},     {34, "imagenet", false, 64, {3, 4, 6, 3}},
    {44, "cifar", false, 16, {7, 7, 7, 0}},     {50, "imagenet", true, 64, {3, 4, 6, 3}},
    {56, "cifar", false, 16, {9, 9, 9, 0}},     {101, "imagenet", true, 64, {3, 4, 23, 3}},
    {152, "imagenet", true, 64, {3, 8, 36, 3}},
};

struct ResidualBlock {
  std::string name;  // "stage1.block2"
  std::int64_t width = 0, stride = 1;
  bool bottleneck = false, zero_init = false;
  float drop = 0;  // rate of stochastic depth
};

const Variant& read_depth(TomlReader& model, Json& config) {
  const std::int64_t depth = model.integer("depth", 1, 1000);
  config["depth"] = depth;
  std::string known;
  for (const Variant& variant : kVariants) {
    if (variant.depth == depth) return variant;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", variant.depth);
  }
  model.fail_at("depth", fmt::format("expected one of {}, got {}", known, depth));
}

void add_norm_conv(Network& network, const std::string& name, std::int64_t filters, std::int64_t kernel,
                   std::int64_t stride, Activation activation) {
  ConvLayer conv;
  conv.name = name;
  conv.filters = filters;
  conv.kernel = kernel;
  conv.stride = stride;
  conv.padding = Padding::kHalf;
  conv.norm = Norm::kBatch;
  conv.activation = activation;
  add_conv(network, conv);
}

void add_residual_block(Network& network, const ResidualBlock& block) {
  const graph::ValueId input = network.x;
  const std::int64_t filters = block.bottleneck ? 4 * block.width : block.width;
  const bool changes = block.stride != 1 || network.dims()[3].size != filters;
  const auto name = [&](const char* part) { return block.name + part; };
  if (block.bottleneck) {
    add_norm_conv(network, name(".conv1"), block.width, 1, 1, Activation::kRelu);
    add_norm_conv(network, name(".conv2"), block.width, 3, block.stride, Activation::kRelu);
    add_norm_conv(network, name(".conv3"), filters, 1, 1, Activation::kNone);
  } else {
    add_norm_conv(network, name(".conv1"), filters, 3, block.stride, Activation::kRelu);
    add_norm_conv(network, name(".conv2"), filters, 3, 1, Activation::kNone);
  }
  if (block.zero_init) network.zeros.push_back(name(block.bottleneck ? ".conv3.norm.gamma" : ".conv2.norm.gamma"));
  add_stochastic_depth(network, block.drop, name(".drop"));
  const graph::ValueId branch = network.x;
  network.x = input;
  if (changes) add_norm_conv(network, name(".shortcut"), filters, 1, block.stride, Activation::kNone);
  add_sum(network, branch, Activation::kRelu, name(".add"));
}

void add_stem(Network& network, const std::string& kind, std::int64_t width) {
  const bool large = kind == "imagenet";
  add_norm_conv(network, "stem", width, large ? 7 : 3, large ? 2 : 1, Activation::kRelu);
  if (large) add_max_pool(network, 3, 2, Padding::kHalf);
}

}  // namespace

void build_resnet(TomlReader& model, Network& network, Json& config) {
  const Variant& variant = read_depth(model, config);
  const std::string stem = model.one_of("stem", {"cifar", "imagenet"}, variant.stem);
  config["stem"] = stem;
  const double multiplier = read_width(model, config);
  const float stochastic_depth = read_rate(model, "stochastic_depth", 0, config);
  const float dropout = read_rate(model, "dropout", 0, config);
  ResidualBlock block;
  config["zero_init_residual"] = block.zero_init = model.boolean("zero_init_residual", false);
  block.bottleneck = variant.bottleneck;

  int blocks = 0, done = 0;
  for (const int each : variant.blocks) blocks += each;
  const auto width_of = [&](std::size_t stage) {
    return std::llround(multiplier * static_cast<double>(variant.width << stage));
  };
  at_key(model, "depth", [&] { add_stem(network, stem, width_of(0)); });
  for (std::size_t stage = 0; stage < variant.blocks.size(); ++stage) {
    for (int i = 0; i < variant.blocks[stage]; ++i) {
      block.name = fmt::format("stage{}.block{}", stage + 1, i + 1);
      block.width = width_of(stage);
      block.stride = stage > 0 && i == 0 ? 2 : 1;
      block.drop = stochastic_depth * static_cast<float>(++done) / static_cast<float>(blocks);
      if (block.stride == 2 && network.dims()[1].size == 1 && network.dims()[2].size == 1) {
        model.fail_at("depth",
                      fmt::format("the images are too small: {} would halve an image of {}{}", block.name,
                                  network.shape(), stem == "imagenet" ? "; stem = \"cifar\" halves less" : ""));
      }
      at_key(model, "depth", [&] { add_residual_block(network, block); });
    }
  }
  add_global_pool(network);
  add_dropout(network, dropout);
}

}  // namespace mlx::nn
