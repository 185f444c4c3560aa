// Builds a decoder's graph of the operations that the families gpt2 and llama have, and a few more of their kind, so
// that it decodes with a cache, is fused and trained on as theirs. Queries, keys and values are one layer, unless their
// heads have norms, and so are gate and up.

#include "nn/decoder_graph.h"

#include <cmath>

#include "base/error.h"

namespace mlx::nn {
namespace {

using graph::Dim;
using graph::Op;
using graph::ValueId;

struct DecoderBuilder : OutsideBuilder {
  const DecoderConfig& config;
  explicit DecoderBuilder(const DecoderConfig& of) : OutsideBuilder{Transformer(of.width, 0), of.gpt2}, config(of) {}

  ValueId norm(const std::string& name, ValueId x, const std::string& from) {
    graph::Attrs attrs;
    attrs.epsilon = config.epsilon;
    const std::int64_t width = net.graph.value(x).dims.back().size;
    const ValueId gamma = parameter(name + ".gamma", {from + ".weight", {width}});
    sources[name + ".gamma"].plus_one = config.gemma;
    if (!config.gpt2) return net.graph.add(Op::kRmsNorm, attrs, {x, gamma}, name)[0];
    const ValueId beta = parameter(name + ".beta", {from + ".bias", {config.width}});
    return net.graph.add(Op::kLayerNorm, attrs, {x, gamma, beta}, name)[0];
  }

  ValueId attend(const std::string& name, ValueId qkv, const DecoderLayer& layer) {
    graph::Attrs attrs, rope = layer.rope;
    attrs.heads = rope.heads = config.heads;
    if (config.kv_heads != config.heads) attrs.kv_heads = rope.kv_heads = config.kv_heads;
    attrs.window = layer.window, attrs.cap = config.score_cap, attrs.scale_a = layer.sharpness;
    rope.axis = config.context;
    if (!config.gpt2) qkv = net.graph.add(Op::kRope, rope, {qkv}, name + ".rope")[0];
    return net.graph.add(Op::kAttention, attrs, {qkv}, name)[0];
  }

  // A norm of each head of queries or of keys.
  ValueId normalized_heads(const std::string& name, ValueId x, const std::string& from) {
    const graph::Dims flat = net.graph.value(x).dims;
    const Dim count = Dim::of(flat.back().size / config.head);
    x = net.graph.add_shaped(Op::kReshape, {}, {x}, {flat[0], flat[1], count, Dim::of(config.head)},
                             name + ".heads")[0];
    return net.graph.add_shaped(Op::kReshape, {}, {norm(name + ".norm", x, from)}, flat, name + ".normed")[0];
  }

  // Queries, keys and values of x, side by side.
  ValueId queries_keys_values(const std::string& name, ValueId x, const std::string& from) {
    const std::int64_t queries = config.heads * config.head, keys = config.kv_heads * config.head;
    const Layer q{from + "q_proj", queries}, k{from + "k_proj", keys}, v{from + "v_proj", keys};
    if (config.fused)
      return linear(name + ".qkv", x, config.width, {{from + "qkv_proj", queries + 2 * keys}}, config.qkv_bias);
    if (!config.head_norms) return linear(name + ".qkv", x, config.width, {q, k, v}, config.qkv_bias);
    const auto part = [&](const char* as, const Layer& layer) {
      return linear(name + as, x, config.width, {layer}, config.qkv_bias);
    };
    graph::Attrs side_by_side;
    side_by_side.axis = 2;
    return net.graph.add(Op::kConcat, side_by_side,
                         {normalized_heads(name + ".q", part(".q", q), from + "q_norm"),
                          normalized_heads(name + ".k", part(".k", k), from + "k_norm"), part(".v", v)},
                         name + ".qkv")[0];
  }

  // The norm behind a layer, if the model has one.
  ValueId norm_behind(const std::string& name, ValueId x, const std::string& from) {
    return config.gemma ? norm(name, x, from) : x;
  }
};

ValueId gpt2_block(DecoderBuilder& b, const DecoderLayer& layer, const std::string& name, const std::string& from,
                   ValueId x) {
  const DecoderConfig& c = b.config;
  ValueId y = b.norm(name + ".norm1", x, from + "ln_1");
  y = b.linear(name + ".attention.qkv", y, c.width, {{from + "attn.c_attn", 3 * c.width}}, true);
  y = b.attend(name + ".attention", y, layer);
  y = b.linear(name + ".attention.projection", y, c.width, {{from + "attn.c_proj", c.width}}, true);
  x = b.net.residual(name + ".add1", "", x, y);
  y = b.norm(name + ".norm2", x, from + "ln_2");
  y = b.linear(name + ".mlp.up", y, c.width, {{from + "mlp.c_fc", c.hidden}}, true);
  y = b.net.graph.add(Op::kGelu, {}, {y}, name + ".mlp.gelu")[0];
  y = b.linear(name + ".mlp.down", y, c.hidden, {{from + "mlp.c_proj", c.width}}, true);
  return b.net.residual(name + ".add2", "", x, y);
}

ValueId rotary_block(DecoderBuilder& b, const DecoderLayer& layer, const std::string& name, const std::string& from,
                     ValueId x) {
  const DecoderConfig& c = b.config;
  const std::string attention = from + "self_attn.", mlp = from + "mlp.";
  const char* const before_mlp = c.gemma ? "pre_feedforward_layernorm" : "post_attention_layernorm";
  graph::Attrs gate;
  if (c.gemma) gate.activation = kernels::Activation::kGelu;
  ValueId y = b.norm(name + ".norm1", x, from + "input_layernorm");
  y = b.queries_keys_values(name + ".attention", y, attention);
  y = b.attend(name + ".attention", y, layer);
  y = b.linear(name + ".attention.projection", y, c.heads * c.head, {{attention + "o_proj", c.width}}, c.output_bias);
  x = b.net.residual(name + ".add1", "", x, b.norm_behind(name + ".norm3", y, from + "post_attention_layernorm"));
  y = b.norm(name + ".norm2", x, from + before_mlp);
  if (c.fused)
    y = b.linear(name + ".mlp.up", y, c.width, {{mlp + "gate_up_proj", 2 * c.hidden}}, false);
  else
    y = b.linear(name + ".mlp.up", y, c.width, {{mlp + "gate_proj", c.hidden}, {mlp + "up_proj", c.hidden}},
                 c.mlp_bias);
  y = b.net.graph.add(Op::kSwiGlu, gate, {y}, name + ".mlp.swiglu")[0];
  y = b.linear(name + ".mlp.down", y, c.hidden, {{mlp + "down_proj", c.width}}, c.mlp_bias);
  return b.net.residual(name + ".add2", "", x, b.norm_behind(name + ".norm4", y, from + "post_feedforward_layernorm"));
}

}  // namespace

OutsideGraph build_decoder(const DecoderConfig& config, const std::string& prefix) {
  DecoderBuilder b(config);
  const std::vector<std::int64_t> table{config.vocabulary, config.width};
  const ValueId ids = b.net.ids();
  const ValueId tokens =
      b.parameter("tokens.weight", {prefix + (config.gpt2 ? "wte.weight" : "embed_tokens.weight"), table});
  ValueId x = b.net.graph.add(Op::kEmbedding, {}, {ids, tokens}, "tokens")[0];
  if (config.gpt2) {
    // The first rows, as many as the context has positions.
    b.sources["positions.weight"] = {{{prefix + "wpe.weight", {config.positions, config.width}}}};
    const ValueId positions =
        b.net.graph.parameter("positions.weight", {Dim::of(config.context), Dim::of(config.width)});
    x = b.net.graph.add(Op::kAddPositions, {}, {x, positions}, "embedding")[0];
  }
  if (config.gemma) {
    graph::Attrs scale;
    scale.scale_a = static_cast<float>(std::sqrt(static_cast<double>(config.width))), scale.scale_b = 0;
    x = b.net.graph.add(Op::kScaledAdd, scale, {x, x}, "embedding")[0];
  }
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string name = fmt::format("block{}", i);
    const DecoderLayer& layer = config.blocks[static_cast<std::size_t>(i)];
    x = config.gpt2 ? gpt2_block(b, layer, name, fmt::format("{}h.{}.", prefix, i), x)
                    : rotary_block(b, layer, name, fmt::format("{}layers.{}.", prefix, i), x);
  }
  x = b.norm("norm", x, prefix + (config.gpt2 ? "ln_f" : "norm"));
  const ValueId head = config.tie ? tokens : b.parameter("head.weight", {"lm_head.weight", table});
  graph::Attrs cap;
  cap.cap = config.logit_cap;
  x = b.net.graph.add(Op::kLinear, {}, {x, head}, cap.cap > 0 ? "head" : "logits")[0];
  if (cap.cap > 0) x = b.net.graph.add(Op::kSoftCap, cap, {x}, "logits")[0];
  b.net.graph.outputs = {x};
  return {std::move(b.net.graph), std::move(b.sources)};
}

}  // namespace mlx::nn
