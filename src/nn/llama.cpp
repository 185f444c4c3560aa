// family = "llama", with the defaults layers = 12, width = 768, heads = 12, context = 1024, theta = 10000, dropout = 0,
// tie = false. kv_heads defaults to heads; hidden defaults to 8/3 of width, rounded up to a multiple of 64.
//
// LLaMA (Touvron et al. 2023): pre-norm blocks with RMS norm, rotary positions, grouped queries, SwiGLU, no biases. The
// final layer has its own weights unless `tie` makes it share the embedding's.

#include "base/error.h"
#include "base/json.h"
#include "nn/transformer.h"

namespace mlx::nn {
namespace {

using graph::Dim;
using graph::Op;
using graph::ValueId;

ValueId add_rms_norm(Transformer& net, const std::string& name, ValueId x) {
  return net.graph.add(Op::kRmsNorm, {}, {x, net.graph.parameter(name + ".gamma", {Dim::of(net.width)})}, name)[0];
}

ValueId block(Transformer& net, const LlamaConfig& config, const std::string& name, ValueId x) {
  const std::int64_t width = config.width, head = width / config.heads;
  graph::Attrs attrs, rope;
  attrs.heads = config.heads;
  if (config.kv_heads != config.heads) attrs.kv_heads = config.kv_heads;
  rope = attrs;
  rope.theta = config.theta;
  rope.axis = config.context;
  ValueId y = net.linear(name + ".attention.qkv", add_rms_norm(net, name + ".norm1", x), width,
                         width + 2 * config.kv_heads * head, false);
  y = net.graph.add(Op::kRope, rope, {y}, name + ".attention.rope")[0];
  y = net.graph.add(Op::kAttention, attrs, {y}, name + ".attention")[0];
  y = net.linear(name + ".attention.projection", y, width, width, false);
  x = net.residual(name + ".add1", name + ".attention.dropout", x, y);
  y = net.linear(name + ".mlp.up", add_rms_norm(net, name + ".norm2", x), width, 2 * config.hidden, false);
  y = net.graph.add(Op::kSwiGlu, {}, {y}, name + ".mlp.swiglu")[0];
  y = net.linear(name + ".mlp.down", y, config.hidden, width, false);
  return net.residual(name + ".add2", name + ".mlp.dropout", x, y);
}

}  // namespace

graph::Graph build_llama(const LlamaConfig& config) {
  if (config.vocabulary < 1 || config.context < 1 || config.width < 1 || config.layers < 1 || config.heads < 1 ||
      config.kv_heads < 1 || config.hidden < 1 || config.width % config.heads != 0 ||
      config.width / config.heads % 2 != 0 || config.heads % config.kv_heads != 0) {
    fail(ErrorKind::kUsage,
         "llama: sizes must be at least 1, heads must divide the width into even widths, and kv_heads must divide "
         "heads");
  }
  Transformer net(config.width, config.dropout);
  const ValueId ids = net.ids();
  const ValueId tokens = net.graph.parameter("tokens.weight", {Dim::of(config.vocabulary), Dim::of(config.width)});
  ValueId x = net.dropout("embedding.dropout", net.graph.add(Op::kEmbedding, {}, {ids, tokens}, "tokens")[0]);
  for (std::int64_t i = 0; i < config.layers; ++i) x = block(net, config, fmt::format("block{}", i), x);
  x = add_rms_norm(net, "norm", x);
  const ValueId head =
      config.tie ? tokens : net.graph.parameter("head.weight", {Dim::of(config.vocabulary), Dim::of(config.width)});
  net.graph.outputs = {net.graph.add(Op::kLinear, {}, {x, head}, "logits")[0]};
  return std::move(net.graph);
}

LanguageGraph read_llama(TomlReader& model, std::int64_t vocabulary, Json& config) {
  config["vocabulary"] = vocabulary;
  const TransformerKeys keys = read_transformer(model, config);
  LlamaConfig llama{vocabulary, keys.context, keys.width, keys.heads, keys.layers, static_cast<float>(keys.dropout)};
  if (keys.width / keys.heads % 2 != 0) {
    model.fail_at("heads", fmt::format("{} heads of the width {} are {} wide, rotary positions need an even width",
                                       keys.heads, keys.width, keys.width / keys.heads));
  }
  config["kv_heads"] = llama.kv_heads = model.integer("kv_heads", 1, keys.heads, keys.heads);
  if (keys.heads % llama.kv_heads != 0)
    model.fail_at("kv_heads", fmt::format("{} heads of keys do not divide the {} heads", llama.kv_heads, keys.heads));
  // Two thirds of gpt2's four widths, so that three matrices have as many weights as two; rounded up to 64.
  const std::int64_t hidden = (8 * keys.width / 3 + 63) / 64 * 64;
  config["hidden"] = llama.hidden = model.integer("hidden", 1, std::int64_t{1} << 24, hidden);
  const double theta = model.number("theta", 1, 1e12, 10000);
  config["theta"] = theta;
  llama.theta = static_cast<float>(theta);
  config["tie"] = llama.tie = model.boolean("tie", false);
  check_matrix(model, "width", vocabulary, keys.width);
  check_matrix(model, "hidden", 2 * llama.hidden, keys.width);
  return {build_llama(llama), llama.context};
}

}  // namespace mlx::nn
