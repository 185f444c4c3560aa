// Reads config.json. Nothing in it is trusted: every number has bounds, so that no size computed from them overflows,
// and what changes the computation is either known or refused.

#include "nn/decoder_config.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "base/error.h"
#include "base/json.h"
#include "nn/config_keys.h"
#include "nn/imported.h"

namespace mlx::nn {
namespace {

// YaRN (Peng et al. 2023): pairs that turn often stay, those that turn less than once in the original context are
// slowed, and scores are sharpened.
void read_yarn(const ConfigKeys& rope, std::int64_t head, std::int64_t context, DecoderLayer& layer) {
  const double theta = layer.rope.theta, slow = layer.rope.slow;
  const double original =
      static_cast<double>(rope.integer("original_max_position_embeddings", kMostPositions, context));
  const auto pair_of = [&](double turns) {  // the one that turns so often in the original context
    return static_cast<double>(head) * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  const float fast = rope.number("beta_fast", 1e-3, 1e6, 32), slowest = rope.number("beta_slow", 1e-3, 1e6, 1);
  double begin = pair_of(double{fast}), end = pair_of(double{slowest});
  if (rope.boolean("truncate", true)) begin = std::floor(begin), end = std::ceil(end);
  begin = std::max(begin, 0.), end = std::min(end, static_cast<double>(head - 1));
  if (begin == end) end += 0.001;
  layer.rope.ramp_begin = static_cast<float>(begin), layer.rope.ramp_end = static_cast<float>(end);
  if (!(layer.rope.ramp_begin < layer.rope.ramp_end))
    fail(ErrorKind::kCorrupt, "{}: 'beta_fast' must be above 'beta_slow'", rope.what);
  const auto sharper = [&](double by) { return slow > 1 ? 0.1 * by * std::log(slow) + 1 : 1; };
  double scale = sharper(1);
  if (rope.find("mscale") && rope.find("mscale_all_dim"))
    scale = sharper(double{rope.number("mscale", 0, 1e3)}) / sharper(double{rope.number("mscale_all_dim", 0, 1e3)});
  scale = double{rope.number("attention_factor", 1e-3, 1e3, scale)};
  layer.sharpness *= static_cast<float>(scale * scale);  // of queries and of keys
  const bool usual = rope.boolean("truncate", true) && std::fabs(scale - sharper(1)) < 1e-6;
  layer.yarn = YarnForm{static_cast<std::int64_t>(original), fast, slowest, scale, usual};
}

void require_whole_heads(const ConfigKeys& keys) {
  if (keys.number("partial_rotary_factor", 0, 1, 1.0) < 1)
    keys.unsupported("a partial_rotary_factor below 1", "rotary positions over whole heads");
}

// How rotary positions are scaled, in one of the forms that `transformers` has written.
void read_scaling(const ConfigKeys& rope, std::int64_t head, std::int64_t context, DecoderLayer& layer) {
  layer.rope.theta = rope.number("rope_theta", 1, 1e12, double{layer.rope.theta});
  require_whole_heads(rope);
  const std::string type = rope.string("rope_type", rope.string("type", "default").c_str());
  if (type == "default") return;
  if (type == "dynamic") {  // scales beyond the model's own context alone, and nothing here is longer
    (void)rope.number("factor", 1, 1e6);
    return;
  }
  if (type != "linear" && type != "llama3" && type != "yarn")
    rope.unsupported(fmt::format("rope_type '{}'", type), "default, linear, dynamic, llama3, yarn");
  layer.rope.slow = rope.number("factor", 1, 1e6);
  layer.scaling = type;
  if (type == "linear") return;
  if (type == "yarn") return read_yarn(rope, head, context, layer);
  layer.rope.long_low = rope.number("low_freq_factor", 0, 1e6);
  layer.rope.long_high = rope.number("high_freq_factor", 0, 1e6);
  layer.rope.long_context = rope.integer("original_max_position_embeddings", kMostPositions);
  if (!(layer.rope.long_low < layer.rope.long_high))
    fail(ErrorKind::kCorrupt, "{}: 'low_freq_factor' must be below 'high_freq_factor'", rope.what);
}

// Of layers that all have the same, and of those that have it by their type.
void read_rope(const ConfigKeys& keys, std::int64_t head, std::int64_t context, const char* layer_type,
               DecoderLayer& layer) {
  const Json* const newer = keys.find("rope_parameters");
  const Json* given = newer ? newer : keys.find("rope_scaling");
  layer.rope.theta = keys.number("rope_theta", 1, 1e12, 10000.0);
  require_whole_heads(keys);
  if (!given) return;
  const char* const key = newer ? "rope_parameters" : "rope_scaling";
  if (!given->is_object()) fail(ErrorKind::kCorrupt, "{}: '{}': expected an object", keys.what, key);
  if (layer_type && given->contains(layer_type)) {
    given = &(*given)[layer_type];
    if (!given->is_object()) fail(ErrorKind::kCorrupt, "{}: {}: '{}': expected an object", keys.what, key, layer_type);
  }
  read_scaling({*given, fmt::format("{}: {}", keys.what, key)}, head, context, layer);
}

// Which blocks have a window: as 'layer_types' says, or else as the architecture does.
constexpr const char* kSliding = "sliding_attention";
std::vector<bool> sliding_blocks(const ConfigKeys& keys, const DecoderConfig& config,
                                 const std::function<bool(std::int64_t)>& by_default) {
  std::vector<bool> out;
  const Json* const types = keys.find("layer_types");
  if (types && (!types->is_array() || types->size() != static_cast<std::size_t>(config.layers)))
    fail(ErrorKind::kCorrupt, "{}: 'layer_types': expected an array of {} types", keys.what, config.layers);
  for (std::int64_t i = 0; i < config.layers; ++i) {
    if (!types) {
      out.push_back(by_default(i));
      continue;
    }
    const Json& type = (*types)[static_cast<std::size_t>(i)];
    if (type != kSliding && type != "full_attention")
      keys.unsupported(fmt::format("the layer type {}", ConfigKeys::shown(type)), "full_attention, sliding_attention");
    out.push_back(type == kSliding);
  }
  return out;
}

// A window as long as the context hides nothing.
void read_windows(const ConfigKeys& keys, const std::vector<bool>& sliding, DecoderConfig& config) {
  constexpr std::int64_t kUsual = 4096;  // of Gemma and Mistral, if absent; null says that there is none
  const bool has_usual = config.gemma || config.architecture == "MistralForCausalLM";
  if (!keys.find("sliding_window") && (!has_usual || keys.object.contains("sliding_window"))) return;
  config.window = keys.integer("sliding_window", kMostPositions, kUsual);
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    config.blocks[i].sliding = sliding[i];
    if (sliding[i] && config.window < config.context) config.blocks[i].window = config.window;
  }
}

void read_sizes(const ConfigKeys& keys, std::int64_t context, DecoderConfig& config) {
  config.width = keys.integer("hidden_size", kMostWide);
  config.hidden = keys.integer("intermediate_size", kMostWide);
  config.layers = keys.integer("num_hidden_layers", kMostLayers);
  config.heads = keys.integer("num_attention_heads", kMostHeads);
  config.kv_heads = keys.integer("num_key_value_heads", kMostHeads, config.heads);
  if (config.heads % config.kv_heads != 0)
    fail(ErrorKind::kCorrupt, "{}: {} num_key_value_heads do not divide {} num_attention_heads", keys.what,
         config.kv_heads, config.heads);
  if (!keys.find("head_dim") && config.width % config.heads != 0)
    fail(ErrorKind::kCorrupt, "{}: {} num_attention_heads do not divide the hidden_size {}", keys.what, config.heads,
         config.width);
  config.head = keys.integer("head_dim", kMostWide, config.width / config.heads);
  if (config.head % 2 != 0 || config.head * (config.heads + 2 * config.kv_heads) > 3 * kMostWide)
    fail(ErrorKind::kCorrupt, "{}: {} heads of width {}: expected an even width, and at most {} in all", keys.what,
         config.heads, config.head, kMostWide);
  config.epsilon = keys.number("rms_norm_eps", 0, 1, 1e-6);
  config.blocks.resize(static_cast<std::size_t>(config.layers));
  config.own_context = keys.integer("max_position_embeddings", kMostPositions);
  config.context = context_within(keys, config.own_context, context);
}

// Llama, Mistral, Qwen2, Qwen3 and Phi-3.
void read_rotary(const ConfigKeys& keys, std::int64_t context, DecoderConfig& config) {
  const auto is = [&](const char* name) { return config.architecture == name; };
  const bool llama = is("LlamaForCausalLM"), qwen2 = is("Qwen2ForCausalLM"), qwen3 = is("Qwen3ForCausalLM");
  config.fused = is("Phi3ForCausalLM");
  config.head_norms = qwen3;
  read_sizes(keys, context, config);
  check_one_of(keys, "the activation", keys.string("hidden_act", "silu"), {"silu", "swish"}, "silu");
  config.qkv_bias = qwen2 || ((llama || qwen3) && keys.boolean("attention_bias", false));
  config.output_bias = !qwen2 && config.qkv_bias;
  config.mlp_bias = llama && keys.boolean("mlp_bias", false);
  config.tie = keys.boolean("tie_word_embeddings", false);
  DecoderLayer layer;
  read_rope(keys, config.head, keys.integer("max_position_embeddings", kMostPositions), nullptr, layer);
  config.blocks.assign(config.blocks.size(), layer);
  // Qwen's first layers have none.
  const bool used = keys.boolean("use_sliding_window", is("MistralForCausalLM") || config.fused);
  const std::int64_t whole = qwen2 || qwen3 ? keys.integer("max_window_layers", kMostPositions, 28) : 0;
  read_windows(keys, sliding_blocks(keys, config, [=](std::int64_t i) { return used && i >= whole; }), config);
}

// A soft cap; `usual` if absent, 0 for none, as null says.
float cap_of(const ConfigKeys& keys, const char* key, float usual) {
  if (keys.find(key)) return keys.number(key, 1e-3, 1e9);
  return keys.object.contains(key) ? 0.0f : usual;
}

// Gemma 2 and 3.
void read_gemma(const ConfigKeys& keys, std::int64_t context, DecoderConfig& config) {
  const bool third = config.architecture == "Gemma3ForCausalLM";
  config.gemma = true;
  config.head_norms = third;
  read_sizes(keys, context, config);
  check_one_of(keys, "the activation", keys.string("hidden_activation", "gelu_pytorch_tanh"), {"gelu_pytorch_tanh"},
               "gelu_pytorch_tanh");
  if (keys.boolean("use_bidirectional_attention", false))
    keys.unsupported("use_bidirectional_attention", "causal attention");
  config.qkv_bias = config.output_bias = keys.boolean("attention_bias", false);
  config.tie = keys.boolean("tie_word_embeddings", true);
  config.score_cap = cap_of(keys, "attn_logit_softcapping", third ? 0.0f : 50.0f);
  config.logit_cap = cap_of(keys, "final_logit_softcapping", third ? 0.0f : 30.0f);
  // Every second layer has a window in Gemma 2, all but every sixth in Gemma 3.
  const std::int64_t pattern = third ? keys.integer("sliding_window_pattern", kMostLayers, 6) : 2;
  const std::vector<bool> sliding =
      sliding_blocks(keys, config, [=](std::int64_t i) { return (i + 1) % pattern != 0; });
  const double scale =
      std::sqrt(static_cast<double>(config.head) / keys.number("query_pre_attn_scalar", 1e-3, 1e9, 256));
  const std::int64_t own = keys.integer("max_position_embeddings", kMostPositions);
  for (std::size_t i = 0; i < config.blocks.size(); ++i) {
    DecoderLayer& layer = config.blocks[i];
    layer.sharpness = static_cast<float>(scale);
    if (third && sliding[i] && !keys.find("rope_parameters")) {
      layer.rope.theta = keys.number("rope_local_base_freq", 1, 1e12, 10000);
    } else {
      read_rope(keys, config.head, own, sliding[i] ? kSliding : "full_attention", layer);
      if (third && !keys.find("rope_parameters")) layer.rope.theta = keys.number("rope_theta", 1, 1e12, 1e6);
    }
  }
  read_windows(keys, sliding, config);
}

void read_gpt2_keys(const ConfigKeys& keys, std::int64_t context, DecoderConfig& config) {
  config.gpt2 = true;
  config.width = keys.integer("n_embd", kMostWide);
  config.hidden = keys.integer("n_inner", 4 * kMostWide, 4 * config.width);
  config.layers = keys.integer("n_layer", kMostLayers);
  config.heads = config.kv_heads = keys.integer("n_head", kMostHeads);
  if (config.width % config.heads != 0)
    fail(ErrorKind::kCorrupt, "{}: {} n_head do not divide the n_embd {}", keys.what, config.heads, config.width);
  config.head = config.width / config.heads;
  config.positions = keys.integer("n_positions", kLongestContext);
  config.epsilon = keys.number("layer_norm_epsilon", 0, 1, 1e-5);
  check_one_of(keys, "the activation", keys.string("activation_function", "gelu_new"),
               {"gelu_new", "gelu_pytorch_tanh"}, "gelu_new, gelu_pytorch_tanh");
  if (!keys.boolean("scale_attn_weights", true))
    keys.unsupported("scale_attn_weights false", "attention scaled by the width of a head");
  if (keys.boolean("scale_attn_by_inverse_layer_idx", false))
    keys.unsupported("scale_attn_by_inverse_layer_idx", "attention scaled by the width of a head");
  config.qkv_bias = config.output_bias = config.mlp_bias = true;
  config.tie = keys.boolean("tie_word_embeddings", true);
  config.blocks.resize(static_cast<std::size_t>(config.layers));
  config.own_context = config.positions;
  config.context = context_within(keys, config.own_context, context);
}

struct Architecture {
  const char* name;
  void (*read)(const ConfigKeys& keys, std::int64_t context, DecoderConfig& config);
};
constexpr Architecture kArchitectures[] = {
    {"GPT2LMHeadModel", read_gpt2_keys}, {"LlamaForCausalLM", read_rotary}, {"MistralForCausalLM", read_rotary},
    {"Qwen2ForCausalLM", read_rotary},   {"Qwen3ForCausalLM", read_rotary}, {"Phi3ForCausalLM", read_rotary},
    {"Gemma2ForCausalLM", read_gemma},   {"Gemma3ForCausalLM", read_gemma},
};

const Architecture& architecture_of(const ConfigKeys& keys) {
  const std::string name = architecture_named_by(keys);
  for (const Architecture& each : kArchitectures)
    if (name == each.name) return each;
  refuse_architecture(keys, name, decoder_architectures());
}

}  // namespace

std::vector<std::string> decoder_architectures() {
  std::vector<std::string> names;
  for (const Architecture& each : kArchitectures) names.emplace_back(each.name);
  return names;
}

DecoderConfig read_decoder_config(std::string_view text, std::int64_t context, const std::string& what) {
  const Json json = parse_json(text, what);
  if (!json.is_object()) fail(ErrorKind::kCorrupt, "{}: expected an object, got {}", what, json.type_name());
  const ConfigKeys keys{json, what};
  const Architecture& architecture = architecture_of(keys);
  check_not_quantized(keys);
  DecoderConfig config;
  config.architecture = architecture.name;
  config.vocabulary = keys.integer("vocab_size", kMostVocabulary);
  architecture.read(keys, context, config);
  return config;
}

}  // namespace mlx::nn
