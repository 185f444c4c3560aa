// family = "gpt2": layers = 12, width = 768, heads = 12, context = 1024, dropout = 0.1.
//
// GPT-2 (Radford et al. 2019): pre-norm blocks, learned positions, the embedding table also as the final layer. One
// function builds both forms, whole sequences and decoding with a cache, so that they share names and thereby weights.

#include "base/error.h"
#include "base/json.h"
#include "nn/families.h"

namespace mlx::nn {
namespace {

using graph::Attrs;
using graph::Dim;
using graph::DType;
using graph::Graph;
using graph::Op;
using graph::ValueId;

struct Builder {
  const GptConfig& config;
  bool cached;
  Graph graph;
  Dim batch, sequence;
  ValueId positions = graph::kNone;  // only with a cache

  ValueId linear(const std::string& name, ValueId x, std::int64_t in, std::int64_t out) {
    const ValueId w = graph.parameter(name + ".weight", {Dim::of(out), Dim::of(in)});
    const ValueId b = graph.parameter(name + ".bias", {Dim::of(out)});
    return graph.add(Op::kLinear, {}, {x, w, b}, name)[0];
  }

  ValueId norm(const std::string& name, ValueId x) {
    const ValueId gamma = graph.parameter(name + ".gamma", {Dim::of(config.width)});
    const ValueId beta = graph.parameter(name + ".beta", {Dim::of(config.width)});
    return graph.add(Op::kLayerNorm, {}, {x, gamma, beta}, name)[0];
  }

  ValueId dropout(const std::string& name, ValueId x) {
    if (cached || config.dropout <= 0) return x;
    Attrs attrs;
    attrs.rate = config.dropout;
    return graph.add(Op::kDropout, attrs, {x}, name)[0];
  }

  ValueId attention(const std::string& name, ValueId qkv) {
    Attrs attrs;
    attrs.heads = config.heads;
    if (!cached) return graph.add(Op::kAttention, attrs, {qkv}, name)[0];
    const graph::Dims cache{batch, Dim::of(config.context), Dim::of(config.width)};
    const ValueId k = graph.state(name + ".k_cache", cache), v = graph.state(name + ".v_cache", cache);
    return graph.add(Op::kAttentionCached, attrs, {qkv, k, v, positions}, name)[0];
  }

  ValueId block(const std::string& name, ValueId x) {
    const std::int64_t width = config.width;
    ValueId y = linear(name + ".attention.qkv", norm(name + ".norm1", x), width, 3 * width);
    y = linear(name + ".attention.projection", attention(name + ".attention", y), width, width);
    x = graph.add(Op::kAdd, {}, {x, dropout(name + ".attention.dropout", y)}, name + ".add1")[0];
    y = linear(name + ".mlp.up", norm(name + ".norm2", x), width, 4 * width);
    y = graph.add(Op::kGelu, {}, {y}, name + ".mlp.gelu")[0];
    y = linear(name + ".mlp.down", y, 4 * width, width);
    return graph.add(Op::kAdd, {}, {x, dropout(name + ".mlp.dropout", y)}, name + ".add2")[0];
  }

  void build() {
    batch = Dim::sym(graph.symbol("batch"));
    sequence = Dim::sym(graph.symbol("sequence"));
    const ValueId ids = graph.input("ids", DType::kS32, {batch, sequence});
    if (cached) positions = graph.input("positions", DType::kS32, {batch});
    const ValueId tokens = graph.parameter("tokens.weight", {Dim::of(config.vocabulary), Dim::of(config.width)});
    const ValueId table = graph.parameter("positions.weight", {Dim::of(config.context), Dim::of(config.width)});
    ValueId x = graph.add(Op::kEmbedding, {}, {ids, tokens}, "tokens")[0];
    std::vector<ValueId> placed{x, table};
    if (cached) placed.push_back(positions);
    x = dropout("embedding.dropout", graph.add(Op::kAddPositions, {}, placed, "embedding")[0]);
    for (std::int64_t i = 0; i < config.layers; ++i) x = block(fmt::format("block{}", i), x);
    graph.outputs = {graph.add(Op::kLinear, {}, {norm("norm", x), tokens}, "logits")[0]};
  }
};

Graph built(const GptConfig& config, bool cached) {
  if (config.vocabulary < 1 || config.context < 1 || config.width < 1 || config.layers < 1 || config.heads < 1 ||
      config.width % config.heads != 0) {
    fail(ErrorKind::kUsage,
         "gpt2: vocabulary, context, width, layers and heads must be at least 1 and heads divide the width");
  }
  Builder builder{config, cached, {}, {}, {}};
  builder.build();
  return std::move(builder.graph);
}

}  // namespace

graph::Graph build_gpt2(const GptConfig& config) {
  return built(config, false);
}

graph::Graph build_gpt2_cached(const GptConfig& config) {
  return built(config, true);
}

LanguageGraph read_gpt2(TomlReader& model, std::int64_t vocabulary, Json& config) {
  constexpr std::int64_t kMost = 1 << 20;
  GptConfig gpt;
  gpt.vocabulary = vocabulary;
  config["vocabulary"] = vocabulary;
  config["layers"] = gpt.layers = model.integer("layers", 1, 1024, 12);
  config["width"] = gpt.width = model.integer("width", 1, kMost, 768);
  config["heads"] = gpt.heads = model.integer("heads", 1, kMost, 12);
  config["context"] = gpt.context = model.integer("context", 1, kMost, 1024);
  const double dropout = model.number("dropout", 0, 0.99, 0);
  config["dropout"] = dropout;
  gpt.dropout = static_cast<float>(dropout);
  if (gpt.width % gpt.heads != 0)
    model.fail_at("heads", fmt::format("{} heads do not divide the width {}", gpt.heads, gpt.width));
  return {build_gpt2(gpt), gpt.context};
}

}  // namespace mlx::nn
