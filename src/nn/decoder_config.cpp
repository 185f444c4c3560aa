// Reads config.json. Nothing in it is trusted: every number has bounds, so that no size computed from them overflows,
// and what changes the computation is either known or refused.

#include "nn/decoder_config.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "nn/imported.h"

namespace mlx::nn {
namespace {

constexpr std::int64_t kMostWide = 1 << 20, kMostLayers = 1024, kMostHeads = 1 << 16, kMostVocabulary = 1 << 26;
constexpr std::int64_t kMostPositions = std::int64_t{1} << 40;

// The keys of an object; null is the same as an absent key.
struct ConfigKeys {
  const Json& object;
  std::string what;

  const Json* find(const char* key) const {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  }
  const Json& needed(const char* key) const {
    if (const Json* value = find(key)) return *value;
    fail(ErrorKind::kCorrupt, "{}: the key '{}' is missing", what, key);
  }
  std::int64_t integer(const char* key, std::int64_t most, std::optional<std::int64_t> fallback = {}) const {
    if (fallback && !find(key)) return *fallback;
    const Json& value = needed(key);
    const bool whole = value.is_number_integer() && value.get<double>() >= 1;
    if (!whole || value.get<double>() > static_cast<double>(most))
      fail(ErrorKind::kCorrupt, "{}: '{}': expected an integer from 1 to {}, got {}", what, key, most, shown(value));
    return value.get<std::int64_t>();
  }
  float number(const char* key, double least, double most, std::optional<double> fallback = {}) const {
    if (fallback && !find(key)) return static_cast<float>(*fallback);
    const Json& value = needed(key);
    if (!value.is_number() || !(value.get<double>() >= least && value.get<double>() <= most))
      fail(ErrorKind::kCorrupt, "{}: '{}': expected a number from {} to {}, got {}", what, key, least, most,
           shown(value));
    return static_cast<float>(value.get<double>());
  }
  bool boolean(const char* key, bool fallback) const {
    const Json* value = find(key);
    if (!value) return fallback;
    if (!value->is_boolean())
      fail(ErrorKind::kCorrupt, "{}: '{}': expected true or false, got {}", what, key, shown(*value));
    return value->get<bool>();
  }
  std::string string(const char* key, const char* fallback) const {
    const Json* value = find(key);
    if (!value) return fallback;
    if (!value->is_string()) fail(ErrorKind::kCorrupt, "{}: '{}': expected a string, got {}", what, key, shown(*value));
    return value->get<std::string>();
  }
  static std::string shown(const Json& value) {
    constexpr std::size_t kLongest = 40;
    std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
    return printable(text);
  }
  [[noreturn]] void unsupported(const std::string& found, const char* supported) const {
    throw Error(ErrorKind::kUsage, fmt::format("{}: {} is not supported", what, printable(found)),
                fmt::format("supported: {}", supported));
  }
};

// Linear scaling, or that of Llama 3.1, in either of the two forms that `transformers` has written.
void read_rope(const ConfigKeys& keys, DecoderConfig& config) {
  const Json* const newer = keys.find("rope_parameters");
  const Json* const given = newer ? newer : keys.find("rope_scaling");
  config.rope.theta = keys.number("rope_theta", 1, 1e12, 10000.0);
  if (keys.number("partial_rotary_factor", 0, 1, 1.0) < 1)
    keys.unsupported("a partial_rotary_factor below 1", "rotary positions over whole heads");
  if (!given) return;
  const char* const key = newer ? "rope_parameters" : "rope_scaling";
  if (!given->is_object()) fail(ErrorKind::kCorrupt, "{}: '{}': expected an object", keys.what, key);
  const ConfigKeys rope{*given, fmt::format("{}: {}", keys.what, key)};
  config.rope.theta = rope.number("rope_theta", 1, 1e12, double{config.rope.theta});
  if (rope.number("partial_rotary_factor", 0, 1, 1.0) < 1)
    rope.unsupported("a partial_rotary_factor below 1", "rotary positions over whole heads");
  const std::string type = rope.string("rope_type", rope.string("type", "default").c_str());
  if (type == "default") return;
  if (type != "linear" && type != "llama3")
    rope.unsupported(fmt::format("rope_type '{}'", type), "default, linear, llama3");
  config.rope.slow = rope.number("factor", 1, 1e6);
  if (type == "linear") return;
  config.rope.long_low = rope.number("low_freq_factor", 0, 1e6);
  config.rope.long_high = rope.number("high_freq_factor", 0, 1e6);
  config.rope.long_context = rope.integer("original_max_position_embeddings", kMostPositions);
  if (!(config.rope.long_low < config.rope.long_high))
    fail(ErrorKind::kCorrupt, "{}: 'low_freq_factor' must be below 'high_freq_factor'", rope.what);
}

// The window of attention, where there is one in any layer.
std::optional<std::int64_t> window_of(const ConfigKeys& keys, bool by_default) {
  if (!keys.find("sliding_window")) return {};
  bool used = keys.boolean("use_sliding_window", by_default);
  if (const Json* types = keys.find("layer_types")) {
    if (!types->is_array()) fail(ErrorKind::kCorrupt, "{}: 'layer_types': expected an array", keys.what);
    for (const Json& type : *types) {
      if (type == "sliding_attention") {
        used = true;
      } else if (type != "full_attention") {
        keys.unsupported(fmt::format("the layer type {}", ConfigKeys::shown(type)), "full_attention");
      }
    }
  }
  return used ? std::optional(keys.integer("sliding_window", kMostPositions)) : std::nullopt;
}

void limit_context(const ConfigKeys& keys, std::int64_t own, std::int64_t asked, DecoderConfig& config) {
  if (asked > own)
    fail(ErrorKind::kUsage, "{}: a context of {} was asked for, the model's own is {}", keys.what, asked, own);
  config.context = asked > 0 ? asked : own;
  if (config.context <= kLongestContext) return;
  throw Error(ErrorKind::kUsage, fmt::format("{}: a context of {} is longer than {}", keys.what, own, kLongestContext),
              "import it with a shorter one: --context N");
}

void check_activation(const ConfigKeys& keys, const std::string& name, std::initializer_list<std::string_view> same,
                      const char* supported) {
  for (const std::string_view known : same)
    if (name == known) return;
  keys.unsupported(fmt::format("the activation '{}'", name), supported);
}

void check_window(const ConfigKeys& keys, bool by_default, const DecoderConfig& config) {
  const std::optional<std::int64_t> window = window_of(keys, by_default);
  if (!window || *window >= config.context) return;
  throw Error(ErrorKind::kUsage,
              fmt::format("{}: a sliding window of {} tokens, shorter than the context of {}, is not supported",
                          keys.what, *window, config.context),
              fmt::format("with --context {} the window covers the whole context", *window));
}

// Llama, Mistral and Qwen2.
void read_rotary(const ConfigKeys& keys, std::int64_t context, DecoderConfig& config) {
  const bool qwen2 = config.architecture == "Qwen2ForCausalLM", llama = config.architecture == "LlamaForCausalLM";
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
  check_activation(keys, keys.string("hidden_act", "silu"), {"silu", "swish"}, "silu");
  config.qkv_bias = qwen2 || (llama && keys.boolean("attention_bias", false));
  config.output_bias = llama && config.qkv_bias;
  config.mlp_bias = llama && keys.boolean("mlp_bias", false);
  config.tie = keys.boolean("tie_word_embeddings", false);
  read_rope(keys, config);
  limit_context(keys, keys.integer("max_position_embeddings", kMostPositions), context, config);
  check_window(keys, config.architecture == "MistralForCausalLM", config);
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
  check_activation(keys, keys.string("activation_function", "gelu_new"), {"gelu_new", "gelu_pytorch_tanh"},
                   "gelu_new, gelu_pytorch_tanh");
  if (!keys.boolean("scale_attn_weights", true))
    keys.unsupported("scale_attn_weights false", "attention scaled by the width of a head");
  if (keys.boolean("scale_attn_by_inverse_layer_idx", false))
    keys.unsupported("scale_attn_by_inverse_layer_idx", "attention scaled by the width of a head");
  config.qkv_bias = config.output_bias = config.mlp_bias = true;
  config.tie = keys.boolean("tie_word_embeddings", true);
  limit_context(keys, config.positions, context, config);
}

struct Architecture {
  const char* name;
  void (*read)(const ConfigKeys& keys, std::int64_t context, DecoderConfig& config);
};
constexpr Architecture kArchitectures[] = {
    {"GPT2LMHeadModel", read_gpt2_keys},
    {"LlamaForCausalLM", read_rotary},
    {"MistralForCausalLM", read_rotary},
    {"Qwen2ForCausalLM", read_rotary},
};

const Architecture& architecture_of(const ConfigKeys& keys) {
  const Json& list = keys.needed("architectures");
  if (!list.is_array() || list.size() != 1 || !list[0].is_string())
    fail(ErrorKind::kCorrupt, "{}: 'architectures': expected one name, got {}", keys.what, ConfigKeys::shown(list));
  std::string known;
  for (const Architecture& each : kArchitectures) {
    if (list[0] == each.name) return each;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", each.name);
  }
  keys.unsupported(fmt::format("the architecture {}", ConfigKeys::shown(list[0])), known.c_str());
}

// Weights in a form of their own, such as GPTQ's, do not fit what the architecture says.
void check_not_quantized(const ConfigKeys& keys) {
  const Json* const quantized = keys.find("quantization_config");
  if (!quantized) return;
  const std::string method = quantized->is_object() && quantized->contains("quant_method")
                                 ? ConfigKeys::shown((*quantized)["quant_method"])
                                 : "of an unknown kind";
  keys.unsupported(fmt::format("a quantization ({})", method), "weights in F32, F16 and BF16");
}

}  // namespace

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
