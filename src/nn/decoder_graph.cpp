// Builds a decoder's graph of the operations that the families gpt2 and llama have, so that it decodes with a cache, is
// fused and trained on as theirs. Queries, keys and values are one layer, and so are gate and up.

#include "nn/decoder_graph.h"

#include "base/error.h"
#include "nn/transformer.h"

namespace mlx::nn {
namespace {

using graph::Dim;
using graph::Op;
using graph::ValueId;
using Part = ParameterSource::Part;

struct DecoderBuilder {
  const DecoderConfig& config;
  Transformer net;
  std::map<std::string, ParameterSource> sources{};

  ValueId parameter(const std::string& name, const Part& from) {
    sources[name] = {{from}, false};
    graph::Dims dims;
    for (const std::int64_t size : from.shape) dims.push_back(Dim::of(size));
    return net.graph.parameter(name, std::move(dims));
  }

  // A linear layer of several outside layers with the same input.
  struct Layer {
    std::string name;
    std::int64_t out = 0;
  };
  ValueId linear(const std::string& name, ValueId x, std::int64_t in, const std::vector<Layer>& layers, bool bias) {
    ParameterSource weights{{}, config.gpt2}, biases;
    std::int64_t out = 0;
    for (const Layer& layer : layers) {
      weights.parts.push_back(
          {layer.name + ".weight", config.gpt2 ? std::vector{in, layer.out} : std::vector{layer.out, in}});
      biases.parts.push_back({layer.name + ".bias", {layer.out}});
      out += layer.out;
    }
    sources[name + ".weight"] = std::move(weights);
    if (bias) sources[name + ".bias"] = std::move(biases);
    return net.linear(name, x, in, out, bias);
  }

  ValueId norm(const std::string& name, ValueId x, const std::string& from) {
    graph::Attrs attrs;
    attrs.epsilon = config.epsilon;
    const ValueId gamma = parameter(name + ".gamma", {from + ".weight", {config.width}});
    if (!config.gpt2) return net.graph.add(Op::kRmsNorm, attrs, {x, gamma}, name)[0];
    const ValueId beta = parameter(name + ".beta", {from + ".bias", {config.width}});
    return net.graph.add(Op::kLayerNorm, attrs, {x, gamma, beta}, name)[0];
  }

  ValueId attend(const std::string& name, ValueId qkv) {
    graph::Attrs attrs, rope = config.rope;
    attrs.heads = rope.heads = config.heads;
    if (config.kv_heads != config.heads) attrs.kv_heads = rope.kv_heads = config.kv_heads;
    rope.axis = config.context;
    if (!config.gpt2) qkv = net.graph.add(Op::kRope, rope, {qkv}, name + ".rope")[0];
    return net.graph.add(Op::kAttention, attrs, {qkv}, name)[0];
  }
};

ValueId gpt2_block(DecoderBuilder& b, const std::string& name, const std::string& from, ValueId x) {
  const DecoderConfig& c = b.config;
  ValueId y = b.norm(name + ".norm1", x, from + "ln_1");
  y = b.linear(name + ".attention.qkv", y, c.width, {{from + "attn.c_attn", 3 * c.width}}, true);
  y = b.attend(name + ".attention", y);
  y = b.linear(name + ".attention.projection", y, c.width, {{from + "attn.c_proj", c.width}}, true);
  x = b.net.residual(name + ".add1", "", x, y);
  y = b.norm(name + ".norm2", x, from + "ln_2");
  y = b.linear(name + ".mlp.up", y, c.width, {{from + "mlp.c_fc", c.hidden}}, true);
  y = b.net.graph.add(Op::kGelu, {}, {y}, name + ".mlp.gelu")[0];
  y = b.linear(name + ".mlp.down", y, c.hidden, {{from + "mlp.c_proj", c.width}}, true);
  return b.net.residual(name + ".add2", "", x, y);
}

ValueId rotary_block(DecoderBuilder& b, const std::string& name, const std::string& from, ValueId x) {
  const DecoderConfig& c = b.config;
  const std::int64_t queries = c.heads * c.head, keys = c.kv_heads * c.head;
  const std::string attention = from + "self_attn.", mlp = from + "mlp.";
  ValueId y = b.norm(name + ".norm1", x, from + "input_layernorm");
  y = b.linear(name + ".attention.qkv", y, c.width,
               {{attention + "q_proj", queries}, {attention + "k_proj", keys}, {attention + "v_proj", keys}},
               c.qkv_bias);
  y = b.attend(name + ".attention", y);
  y = b.linear(name + ".attention.projection", y, queries, {{attention + "o_proj", c.width}}, c.output_bias);
  x = b.net.residual(name + ".add1", "", x, y);
  y = b.norm(name + ".norm2", x, from + "post_attention_layernorm");
  y = b.linear(name + ".mlp.up", y, c.width, {{mlp + "gate_proj", c.hidden}, {mlp + "up_proj", c.hidden}}, c.mlp_bias);
  y = b.net.graph.add(Op::kSwiGlu, {}, {y}, name + ".mlp.swiglu")[0];
  y = b.linear(name + ".mlp.down", y, c.hidden, {{mlp + "down_proj", c.width}}, c.mlp_bias);
  return b.net.residual(name + ".add2", "", x, y);
}

}  // namespace

DecoderGraph build_decoder(const DecoderConfig& config, const std::string& prefix) {
  DecoderBuilder b{config, Transformer(config.width, 0)};
  const std::vector<std::int64_t> table{config.vocabulary, config.width};
  const ValueId ids = b.net.ids();
  const ValueId tokens =
      b.parameter("tokens.weight", {prefix + (config.gpt2 ? "wte.weight" : "embed_tokens.weight"), table});
  ValueId x = b.net.graph.add(Op::kEmbedding, {}, {ids, tokens}, "tokens")[0];
  if (config.gpt2) {
    // The first rows, as many as the context has positions.
    b.sources["positions.weight"] = {{{prefix + "wpe.weight", {config.positions, config.width}}}, false};
    const ValueId positions =
        b.net.graph.parameter("positions.weight", {Dim::of(config.context), Dim::of(config.width)});
    x = b.net.graph.add(Op::kAddPositions, {}, {x, positions}, "embedding")[0];
  }
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string name = fmt::format("block{}", i);
    x = config.gpt2 ? gpt2_block(b, name, fmt::format("{}h.{}.", prefix, i), x)
                    : rotary_block(b, name, fmt::format("{}layers.{}.", prefix, i), x);
  }
  x = b.norm("norm", x, prefix + (config.gpt2 ? "ln_f" : "norm"));
  const ValueId head = config.tie ? tokens : b.parameter("head.weight", {"lm_head.weight", table});
  b.net.graph.outputs = {b.net.graph.add(Op::kLinear, {}, {x, head}, "logits")[0]};
  return {std::move(b.net.graph), std::move(b.sources)};
}

}  // namespace mlx::nn
