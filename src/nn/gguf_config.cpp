// Metadata is written as the config.json that the same model has in a Hugging Face folder, whose reader checks it.

#include "nn/gguf_config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json.h"
#include "nn/gguf_keys.h"
#include "nn/rope_factors.h"

namespace mlx::nn {
namespace {

constexpr std::int64_t kMostOfKey = std::int64_t{1} << 40;
constexpr const char* kSupportedScalings = "none, linear, yarn, and the factors of Llama 3.1";

// The file has the factors that the formula of Llama 3.1 gave, with its numbers left out. They are those of all models
// that were published with it, or the file has others.
Json scaling_of_factors(const GgufKeys& keys, const GgufFacts& facts, std::int64_t head, double theta,
                        std::int64_t context) {
  const std::vector<float>& factors = facts.rope_factors;
  const double most = factors.empty() ? 1 : double{*std::ranges::max_element(factors)};
  const RopeFactors scaling{most, 1, 4, context};
  bool same = factors.size() == static_cast<std::size_t>(head / 2) && most >= 1;
  for (std::size_t i = 0; same && i < factors.size(); ++i)
    same = std::fabs(factors[i] / scaling.at(static_cast<std::int64_t>(i), head, theta) - 1) < 1e-4;
  if (!same) keys.unsupported("'rope_freqs.weight' with other factors", kSupportedScalings);
  return {{"rope_type", "llama3"},
          {"factor", most},
          {"low_freq_factor", scaling.low},
          {"high_freq_factor", scaling.high},
          {"original_max_position_embeddings", context}};
}

void add_rope(const GgufKeys& keys, const GgufFacts& facts, Json& config) {
  constexpr std::int64_t kContextOfLlama3 = 8192;
  const double theta = keys.number("rope.freq_base").value_or(10000);
  config["rope_theta"] = theta;
  const std::int64_t heads = config["num_attention_heads"].get<std::int64_t>();
  const std::int64_t head = config.contains("head_dim") ? config["head_dim"].get<std::int64_t>()
                                                        : config["hidden_size"].get<std::int64_t>() / heads;
  if (const std::int64_t turned = keys.integer("rope.dimension_count", 1, kMostOfKey).value_or(head); turned != head)
    keys.unsupported(fmt::format("rotary positions over {} of {} numbers of a head", turned, head), "whole heads");
  const double slow = keys.number("rope.scaling.factor").value_or(keys.number("rope.scale_linear").value_or(1));
  const std::string type = keys.string("rope.scaling.type").value_or(slow == 1 ? "none" : "linear");
  const std::optional<std::int64_t> context = keys.integer("rope.scaling.original_context_length", 1, kMostOfKey);
  (void)keys.boolean("rope.scaling.finetuned");
  if (const double factor = keys.number("rope.scaling.attn_factor").value_or(1); factor != 1)
    keys.unsupported("the key 'rope.scaling.attn_factor'", kSupportedScalings);
  if (!facts.rope_factors.empty()) {
    if (type != "none" && type != "linear") keys.unsupported("rope scaling '" + type + "'", kSupportedScalings);
    config["rope_scaling"] = scaling_of_factors(keys, facts, head, theta, context.value_or(kContextOfLlama3));
  } else if (type == "linear") {
    config["rope_scaling"] = {{"rope_type", "linear"}, {"factor", slow}};
  } else if (type == "yarn") {
    config["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", slow}};
    if (context) config["rope_scaling"]["original_max_position_embeddings"] = *context;
    for (const auto& [theirs, here] :
         {std::pair{"rope.scaling.yarn_beta_fast", "beta_fast"}, {"rope.scaling.yarn_beta_slow", "beta_slow"}})
      if (const std::optional<double> turns = keys.number(theirs)) config["rope_scaling"][here] = *turns;
  } else if (type != "none") {
    keys.unsupported("rope scaling '" + type + "'", kSupportedScalings);
  }
}

void read_rotary_metadata(const GgufKeys& keys, const GgufFacts& facts, Json& config) {
  config["hidden_size"] = keys.needed_integer("embedding_length", kMostOfKey);
  config["intermediate_size"] = keys.needed_integer("feed_forward_length", kMostOfKey);
  config["num_hidden_layers"] = keys.needed_integer("block_count", kMostOfKey);
  config["num_attention_heads"] = keys.needed_integer("attention.head_count", kMostOfKey);
  if (const auto few = keys.integer("attention.head_count_kv", 1, kMostOfKey)) config["num_key_value_heads"] = *few;
  const auto wide = keys.integer("attention.key_length", 1, kMostOfKey);
  if (wide) config["head_dim"] = *wide;
  if (const auto values = keys.integer("attention.value_length", 1, kMostOfKey); values && values != wide)
    keys.unsupported("'attention.value_length' other than 'attention.key_length'", "heads of one width");
  config["rms_norm_eps"] = keys.number("attention.layer_norm_rms_epsilon").value_or(1e-6);
  config["max_position_embeddings"] = keys.needed_integer("context_length", kMostOfKey);
  if (const auto experts = keys.integer("expert_count", 0, kMostOfKey); experts.value_or(0) > 0)
    keys.unsupported("a mixture of experts", "models without");
  (void)keys.integer("expert_used_count", 0, kMostOfKey);
  if (const auto window = keys.integer("attention.sliding_window", 0, kMostOfKey); window.value_or(0) > 0)
    config["sliding_window"] = *window, config["use_sliding_window"] = true;
  config["attention_bias"] = facts.has("blk.0.attn_q.bias");
  config["mlp_bias"] = facts.has("blk.0.ffn_gate.bias");
  add_rope(keys, facts, config);
}

// What scores are scaled by is no part of the metadata: the largest of the models have another width than the others.
void read_gemma_metadata(const GgufKeys& keys, const GgufFacts& facts, Json& config) {
  const bool third = config["architectures"][0] == "Gemma3ForCausalLM";
  constexpr std::int64_t kLayersOf27B[] = {46, 62};
  constexpr std::int64_t kWindow = 4096;
  read_rotary_metadata(keys, facts, config);
  if (!config.contains("sliding_window")) config["sliding_window"] = kWindow;
  if (const std::optional<double> theta = keys.number("rope.freq_base_swa")) config["rope_local_base_freq"] = *theta;
  const std::int64_t width = config["hidden_size"].get<std::int64_t>(),
                     heads = config["num_attention_heads"].get<std::int64_t>();
  if (config["num_hidden_layers"] == kLayersOf27B[third ? 1 : 0] || !config.contains("head_dim"))
    config["query_pre_attn_scalar"] =
        width % heads == 0 ? Json(width / heads) : Json(static_cast<double>(width) / static_cast<double>(heads));
  else
    config["query_pre_attn_scalar"] = config["head_dim"];
  for (const char* const cap : {"attn_logit_softcapping", "final_logit_softcapping"})
    if (const std::optional<double> most = keys.number(cap)) config[cap] = *most;
}

void read_gpt2_metadata(const GgufKeys& keys, const GgufFacts&, Json& config) {
  config["n_embd"] = keys.needed_integer("embedding_length", kMostOfKey);
  config["n_inner"] = keys.needed_integer("feed_forward_length", kMostOfKey);
  config["n_layer"] = keys.needed_integer("block_count", kMostOfKey);
  config["n_head"] = keys.needed_integer("attention.head_count", kMostOfKey);
  config["n_positions"] = keys.needed_integer("context_length", kMostOfKey);
  config["layer_norm_epsilon"] = keys.number("attention.layer_norm_epsilon").value_or(1e-5);
}

// `type`: the model's in config.json.
struct GgufArchitecture {
  const char *name, *architecture, *type;
  void (*read)(const GgufKeys& keys, const GgufFacts& facts, Json& config);
};
constexpr const char *kLlama = "LlamaForCausalLM", *kMistral = "MistralForCausalLM";
constexpr GgufArchitecture kGgufArchitectures[] = {
    {"llama", kLlama, "llama", read_rotary_metadata},
    {"qwen2", "Qwen2ForCausalLM", "qwen2", read_rotary_metadata},
    {"qwen3", "Qwen3ForCausalLM", "qwen3", read_rotary_metadata},
    {"phi3", "Phi3ForCausalLM", "phi3", read_rotary_metadata},
    {"gemma2", "Gemma2ForCausalLM", "gemma2", read_gemma_metadata},
    {"gemma3", "Gemma3ForCausalLM", "gemma3_text", read_gemma_metadata},
    {"gpt2", "GPT2LMHeadModel", "gpt2", read_gpt2_metadata},
};

// What the config of `transformers` would give another value where it is absent.
void complete(const formats::GgufMetadata& metadata, const std::string& what, Json& config) {
  if (config.contains("hidden_size") && !config.contains("head_dim")) {
    const auto width = config["hidden_size"].get<std::int64_t>(),
               heads = config["num_attention_heads"].get<std::int64_t>();
    if (width % heads == 0) config["head_dim"] = width / heads;
  }
  if (config["architectures"][0] == kLlama && config.contains("sliding_window") && config["attention_bias"] == false &&
      config["mlp_bias"] == false)
    config["architectures"] = {kMistral}, config["model_type"] = "mistral";  // llama with windows
  const GgufKeys keys(metadata, "tokenizer.ggml.", what);
  for (const auto& [key, theirs] : {std::pair{"bos_token_id", "bos_token_id"},
                                    {"eos_token_id", "eos_token_id"},
                                    {"pad_token_id", "padding_token_id"}}) {
    const auto id = keys.integer(theirs, 0, std::int64_t{0xFFFFFFFF});
    config[key] = id && *id < config["vocab_size"].get<std::int64_t>() ? Json(*id) : Json(nullptr);
  }
}

struct RenamedTensor {
  std::string_view theirs, here;
};
constexpr RenamedTensor kWholeNames[] = {{"model.embed_tokens.", "token_embd."},
                                         {"model.norm.", "output_norm."},
                                         {"lm_head.", "output."},
                                         {"wte.", "token_embd."},
                                         {"wpe.", "position_embd."},
                                         {"ln_f.", "output_norm."}};
constexpr RenamedTensor kNamesInBlock[] = {{"self_attn.q_proj.", "attn_q."},
                                           {"self_attn.k_proj.", "attn_k."},
                                           {"self_attn.v_proj.", "attn_v."},
                                           {"self_attn.o_proj.", "attn_output."},
                                           {"self_attn.qkv_proj.", "attn_qkv."},
                                           {"self_attn.q_norm.", "attn_q_norm."},
                                           {"self_attn.k_norm.", "attn_k_norm."},
                                           {"input_layernorm.", "attn_norm."},
                                           {"post_attention_layernorm.", "ffn_norm."},
                                           {"mlp.gate_up_proj.", "ffn_up."},
                                           {"mlp.gate_proj.", "ffn_gate."},
                                           {"mlp.up_proj.", "ffn_up."},
                                           {"mlp.down_proj.", "ffn_down."},
                                           {"ln_1.", "attn_norm."},
                                           {"attn.c_attn.", "attn_qkv."},
                                           {"attn.c_proj.", "attn_output."},
                                           {"ln_2.", "ffn_norm."},
                                           {"mlp.c_fc.", "ffn_up."},
                                           {"mlp.c_proj.", "ffn_down."}};

constexpr RenamedTensor kGemmaNames[] = {{"post_attention_layernorm.", "post_attention_norm."},
                                         {"pre_feedforward_layernorm.", "ffn_norm."},
                                         {"post_feedforward_layernorm.", "post_ffw_norm."}};

}  // namespace

std::string read_gguf_config(const formats::GgufMetadata& metadata, const GgufFacts& facts, const std::string& what) {
  const std::optional<std::string> name = GgufKeys(metadata, "general.", what).string("architecture");
  if (!name) fail(ErrorKind::kCorrupt, "{}: the key 'general.architecture' is missing", what);
  std::string known;
  for (const GgufArchitecture& architecture : kGgufArchitectures) {
    known += fmt::format("{}{}", known.empty() ? "" : ", ", architecture.name);
    if (*name != architecture.name) continue;
    const GgufKeys keys(metadata, *name + ".", what);
    (void)keys.integer("vocab_size", 1, kMostOfKey);
    (void)keys.string("tensor_data_layout");
    Json config{{"architectures", {architecture.architecture}},
                {"model_type", architecture.type},
                {"vocab_size", facts.vocabulary},
                {"tie_word_embeddings", !facts.has("output.weight")}};
    architecture.read(keys, facts, config);
    keys.check_all_read();
    complete(metadata, what, config);
    return canonical(config) + "\n";
  }
  GgufKeys(metadata, "", what).unsupported(fmt::format("the architecture '{}'", *name), known);
}

const char* gguf_architecture(std::string_view architecture) {
  if (architecture == kMistral) architecture = kLlama;
  for (const GgufArchitecture& each : kGgufArchitectures)
    if (architecture == each.architecture) return each.name;
  return nullptr;
}

std::string gguf_tensor_name(const std::string& name, const DecoderConfig& config) {
  for (const auto& [theirs, here] : kWholeNames)
    if (name.starts_with(theirs)) return std::string(here) + name.substr(theirs.size());
  const std::size_t number = name.find_first_of("0123456789"), end = name.find('.', number);
  CHECK(number != std::string::npos && end != std::string::npos);
  const std::string block = "blk." + name.substr(number, end - number) + ".", inside = name.substr(end + 1);
  for (const auto& [theirs, here] : kGemmaNames)
    if (config.gemma && inside.starts_with(theirs)) return block + std::string(here) + inside.substr(theirs.size());
  for (const auto& [theirs, here] : kNamesInBlock)
    if (inside.starts_with(theirs)) return block + std::string(here) + inside.substr(theirs.size());
  return block + inside;
}

}  // namespace mlx::nn
