// Builds an encoder's graph: BERT (Devlin et al. 2019), RoBERTa (Liu et al. 2019), DistilBERT (Sanh et al. 2019). They
// differ in the names of their tensors, and in what is added to the embeddings of tokens.

#include "nn/encoder_graph.h"

namespace mlx::nn {
namespace {

using graph::Dim;
using graph::Op;
using graph::ValueId;

// What the tensors of a block are called.
struct BlockNames {
  std::string query, key, value, projection, norm1, up, down, norm2;
};

BlockNames names_of_block(const EncoderConfig& config, const std::string& prefix, std::int64_t i) {
  if (config.distilled) {
    const std::string layer = fmt::format("{}transformer.layer.{}.", prefix, i), attention = layer + "attention.";
    return {attention + "q_lin",     attention + "k_lin", attention + "v_lin", attention + "out_lin",
            layer + "sa_layer_norm", layer + "ffn.lin1",  layer + "ffn.lin2",  layer + "output_layer_norm"};
  }
  const std::string layer = fmt::format("{}encoder.layer.{}.", prefix, i), attention = layer + "attention.";
  return {attention + "self.query",   attention + "self.key",         attention + "self.value",
          attention + "output.dense", attention + "output.LayerNorm", layer + "intermediate.dense",
          layer + "output.dense",     layer + "output.LayerNorm"};
}

struct EncoderBuilder : OutsideBuilder {
  const EncoderConfig& config;
  explicit EncoderBuilder(const EncoderConfig& of) : OutsideBuilder{Transformer(of.width, 0)}, config(of) {}

  ValueId layer_norm(const std::string& name, ValueId x, const std::string& from) {
    graph::Attrs attrs;
    attrs.epsilon = config.epsilon;
    const ValueId gamma = parameter(name + ".gamma", {from + ".weight", {config.width}});
    const ValueId beta = parameter(name + ".beta", {from + ".bias", {config.width}});
    return net.graph.add(Op::kLayerNorm, attrs, {x, gamma, beta}, name)[0];
  }

  // Adds the first row of the table of segments to every token.
  ValueId add_segment(ValueId x, const std::string& from) {
    const ValueId table = parameter("segments.weight", {from, {config.segments, config.width}});
    graph::Attrs first;
    first.axes = kernels::int_list({0}), first.starts = kernels::int_list({0}), first.ends = kernels::int_list({1});
    const ValueId row = net.graph.add(Op::kSlice, first, {table}, "segments")[0];
    return net.graph.add(Op::kArithmetic, {}, {x, row}, "embedding.segments")[0];
  }

  ValueId add_positions(ValueId x, const std::string& from) {
    sources["positions.weight"] = {{{from, {config.positions, config.width}}}, false, false, config.first_position};
    const ValueId table = net.graph.parameter("positions.weight", {Dim::of(config.context), Dim::of(config.width)});
    return net.graph.add(Op::kAddPositions, {}, {x, table}, "embedding.positions")[0];
  }

  ValueId embed(const std::string& prefix) {
    const std::string from = prefix + "embeddings.";
    const ValueId ids = net.ids();
    const ValueId table =
        parameter("tokens.weight", {from + "word_embeddings.weight", {config.vocabulary, config.width}});
    ValueId x = net.graph.add(Op::kEmbedding, {}, {ids, table}, "tokens")[0];
    if (config.segments > 0) x = add_segment(x, from + "token_type_embeddings.weight");
    x = add_positions(x, from + "position_embeddings.weight");
    return layer_norm("embedding", x, from + "LayerNorm");
  }

  ValueId block(const std::string& name, const BlockNames& from, ValueId x) {
    const std::int64_t width = config.width;
    graph::Attrs heads;
    heads.heads = config.heads;
    ValueId y =
        linear(name + ".attention.qkv", x, width, {{from.query, width}, {from.key, width}, {from.value, width}}, true);
    y = net.graph.add(Op::kBidirectionalAttention, heads, {y}, name + ".attention")[0];
    y = linear(name + ".attention.projection", y, width, {{from.projection, width}}, true);
    x = layer_norm(name + ".norm1", net.residual(name + ".add1", "", x, y), from.norm1);
    y = linear(name + ".mlp.up", x, width, {{from.up, config.hidden}}, true);
    y = net.graph.add(config.activation, {}, {y}, name + ".mlp.activation")[0];
    y = linear(name + ".mlp.down", y, config.hidden, {{from.down, width}}, true);
    return layer_norm(name + ".norm2", net.residual(name + ".add2", "", x, y), from.norm2);
  }
};

}  // namespace

OutsideGraph build_encoder(const EncoderConfig& config, const std::string& prefix) {
  EncoderBuilder b(config);
  ValueId x = b.embed(prefix);
  for (std::int64_t i = 0; i < config.layers; ++i)
    x = b.block(fmt::format("block{}", i), names_of_block(config, prefix, i), x);
  b.net.graph.outputs = {x};
  return {std::move(b.net.graph), std::move(b.sources)};
}

}  // namespace mlx::nn
