// family = "cnn": a list of layers, each an inline table.
//
//   { conv = 32, kernel = 3, stride = 1, padding = "same", groups = 1, norm = "batch", activation = "relu" }
//   { pool = "max", size = 2, stride = 2, padding = "valid" }   { pool = "global" }
//   { norm = "batch", activation = "relu" }, where it stands apart from its convolution: behind a pooling, say
//   { dropout = 0.25 }   { flatten = true }   { dense = 128, norm = "none", activation = "relu" }

#include <fmt/ranges.h>

#include <algorithm>

#include "base/json.h"
#include "nn/families.h"

namespace mlx::nn {
namespace {

constexpr std::int64_t kMostChannels = 65536;
constexpr std::int64_t kLargestWindow = 1024;

void read_conv(TomlReader& layer, Network& network, Json& config) {
  ConvLayer conv;
  config["conv"] = conv.filters = layer.integer("conv", 1, kMostChannels);
  config["kernel"] = conv.kernel = layer.integer("kernel", 1, kLargestWindow, 3);
  config["stride"] = conv.stride = layer.integer("stride", 1, kLargestWindow, 1);
  const std::string padding = layer.one_of("padding", {"same", "valid"}, "same");
  config["padding"] = padding;
  conv.padding = padding == "same" ? Padding::kSame : Padding::kNone;
  config["groups"] = conv.groups = layer.integer("groups", 1, kMostChannels, 1);
  conv.norm = read_norm(layer, config);
  conv.activation = read_activation(layer, config);
  layer.finish();
  at_key(layer, "conv", [&] { add_conv(network, conv); });
}

void read_pool(TomlReader& layer, Network& network, Json& config) {
  const std::string kind = layer.one_of("pool", {"max", "global"});
  config["pool"] = kind;
  if (kind == "global") {
    layer.finish();
    return at_key(layer, "pool", [&] { add_global_pool(network); });
  }
  const std::int64_t size = layer.integer("size", 1, kLargestWindow, 2);
  const std::int64_t stride = layer.integer("stride", 1, kLargestWindow, size);
  const std::string padding = layer.one_of("padding", {"same", "valid"}, "valid");
  config["size"] = size;
  config["stride"] = stride;
  config["padding"] = padding;
  layer.finish();
  at_key(layer, "pool",
         [&] { add_max_pool(network, size, stride, padding == "same" ? Padding::kSame : Padding::kNone); });
}

void read_dropout(TomlReader& layer, Network& network, Json& config) {
  const double rate = layer.number("dropout", 0, 0.99);
  config["dropout"] = rate;
  layer.finish();
  add_dropout(network, static_cast<float>(rate));
}

void read_flatten(TomlReader& layer, Network& network, Json& config) {
  if (!layer.boolean("flatten")) layer.fail_at("flatten", "expected true; leave the layer out instead");
  config["flatten"] = true;
  layer.finish();
  at_key(layer, "flatten", [&] { add_flatten(network); });
}

void read_dense(TomlReader& layer, Network& network, Json& config) {
  DenseLayer dense;
  config["dense"] = dense.units = layer.integer("dense", 1, std::int64_t{1} << 24);
  dense.norm = read_norm(layer, config);
  dense.activation = read_activation(layer, config);
  layer.finish();
  at_key(layer, "dense", [&] { add_dense(network, dense); });
}

void read_norm_layer(TomlReader& layer, Network& network, Json& config) {
  if (read_norm(layer, config) == Norm::kNone) layer.fail_at("norm", "expected \"batch\"; leave the layer out instead");
  const kernels::Activation activation = read_activation(layer, config);
  layer.finish();
  add_norm(network, activation);
}

// The key that is present tells the kind of layer. Convolutions and dense layers have a norm as well.
struct LayerKind {
  const char* key;
  void (*read)(TomlReader& layer, Network& network, Json& config);
  bool is_option = false;  // also an option of the kinds above
};
constexpr LayerKind kLayerKinds[] = {
    {"conv", read_conv},       {"pool", read_pool},   {"dropout", read_dropout},
    {"flatten", read_flatten}, {"dense", read_dense}, {"norm", read_norm_layer, true},
};

[[noreturn]] void refuse_kind(const TomlReader& layer) {
  std::vector<std::string> kinds;
  for (const LayerKind& kind : kLayerKinds) kinds.emplace_back(kind.key);
  const std::vector<std::string> keys = layer.keys();
  std::string close;
  for (const std::string& key : keys) {
    if (close.empty()) close = did_you_mean(key, kinds);
  }
  const std::string what = keys.empty() ? "it is empty" : fmt::format("it has {}", fmt::join(keys, ", "));
  layer.fail_at(keys.empty() ? "" : keys.front(),
                fmt::format("a layer needs exactly one of {}; {}{}", fmt::join(kinds, ", "), what,
                            close.empty() ? "" : fmt::format("; did you mean '{}'?", close)));
}

}  // namespace

void build_cnn(TomlReader& model, Network& network, Json& config) {
  std::vector<TomlReader> layers = model.tables("layers", true);
  if (layers.empty()) model.fail_at("layers", "expected at least one layer");
  Json& resolved = config["layers"] = Json::array();
  for (TomlReader& layer : layers) {
    const LayerKind* found = nullptr;
    for (const LayerKind& kind : kLayerKinds) {
      if (!layer.has(kind.key) || (found && kind.is_option)) continue;
      if (found)
        layer.fail_at(kind.key, fmt::format("a layer has one kind: '{}' or '{}', not both", found->key, kind.key));
      found = &kind;
    }
    if (!found) refuse_kind(layer);
    found->read(layer, network, resolved.emplace_back(Json::object()));
  }
}

}  // namespace mlx::nn
