// family = "gpt2", with the defaults layers = 12, width = 768, heads = 12, context = 1024, dropout = 0.
//
// GPT-2 (Radford et al. 2019): pre-norm blocks, learned positions; the final layer shares the embedding's weights.

#include "base/error.h"
#include "base/json.h"
#include "nn/transformer.h"

namespace mlx::nn {
namespace {

using graph::Dim;
using graph::Op;
using graph::ValueId;

ValueId add_layer_norm(Transformer& net, const std::string& name, ValueId x) {
  const ValueId gamma = net.graph.parameter(name + ".gamma", {Dim::of(net.width)});
  const ValueId beta = net.graph.parameter(name + ".beta", {Dim::of(net.width)});
  return net.graph.add(Op::kLayerNorm, {}, {x, gamma, beta}, name)[0];
}

ValueId block(Transformer& net, const GptConfig& config, const std::string& name, ValueId x) {
  const std::int64_t width = config.width;
  graph::Attrs attrs;
  attrs.heads = config.heads;
  ValueId y = net.linear(name + ".attention.qkv", add_layer_norm(net, name + ".norm1", x), width, 3 * width, true);
  y = net.graph.add(Op::kAttention, attrs, {y}, name + ".attention")[0];
  y = net.linear(name + ".attention.projection", y, width, width, true);
  x = net.residual(name + ".add1", name + ".attention.dropout", x, y);
  y = net.linear(name + ".mlp.up", add_layer_norm(net, name + ".norm2", x), width, 4 * width, true);
  y = net.graph.add(Op::kGelu, {}, {y}, name + ".mlp.gelu")[0];
  y = net.linear(name + ".mlp.down", y, 4 * width, width, true);
  return net.residual(name + ".add2", name + ".mlp.dropout", x, y);
}

}  // namespace

graph::Graph build_gpt2(const GptConfig& config) {
  if (config.vocabulary < 1 || config.context < 1 || config.width < 1 || config.layers < 1 || config.heads < 1 ||
      config.width % config.heads != 0) {
    fail(ErrorKind::kUsage,
         "gpt2: vocabulary, context, width, layers and heads must be at least 1, and heads must divide the width");
  }
  Transformer net(config.width, config.dropout);
  const ValueId ids = net.ids();
  const ValueId tokens = net.graph.parameter("tokens.weight", {Dim::of(config.vocabulary), Dim::of(config.width)});
  const ValueId table = net.graph.parameter("positions.weight", {Dim::of(config.context), Dim::of(config.width)});
  ValueId x = net.graph.add(Op::kEmbedding, {}, {ids, tokens}, "tokens")[0];
  x = net.dropout("embedding.dropout", net.graph.add(Op::kAddPositions, {}, {x, table}, "embedding")[0]);
  for (std::int64_t i = 0; i < config.layers; ++i) x = block(net, config, fmt::format("block{}", i), x);
  net.graph.outputs = {net.graph.add(Op::kLinear, {}, {add_layer_norm(net, "norm", x), tokens}, "logits")[0]};
  return std::move(net.graph);
}

LanguageGraph read_gpt2(TomlReader& model, std::int64_t vocabulary, Json& config) {
  config["vocabulary"] = vocabulary;
  const TransformerKeys keys = read_transformer(model, config);
  check_matrix(model, "width", vocabulary, keys.width);
  check_matrix(model, "context", keys.context, keys.width);
  return {build_gpt2({vocabulary, keys.context, keys.width, keys.heads, keys.layers, static_cast<float>(keys.dropout)}),
          keys.context};
}

}  // namespace mlx::nn
