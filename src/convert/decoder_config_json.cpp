// Keys and their meaning are those of `transformers`. A file that came with the model is changed only where it would be
// wrong.

#include "convert/decoder_config_json.h"

#include "base/error.h"
#include "base/json.h"
#include "nn/decoder_config.h"
#include "nn/imported.h"
#include "nn/model_json.h"

namespace mlx::convert {
namespace {

constexpr const char *kWhat = "the model's config", *kTie = "tie_word_embeddings", *kPositions = "n_positions";
constexpr double kEpsilon = 1e-5;  // of the norms that mlx builds

// Texts have neither beginning nor end in models that mlx trained, and the tokens that the classes have by default are
// in no small vocabulary.
void add_no_ids(Json& config) {
  for (const char* const key : {"bos_token_id", "eos_token_id", "pad_token_id"}) config[key] = nullptr;
}

Json gpt2_config(const Json& model) {
  const auto width = json_int(model, "width", kWhat);
  Json config = {{"architectures", {"GPT2LMHeadModel"}},
                 {"model_type", "gpt2"},
                 {"torch_dtype", "float32"},
                 {"vocab_size", json_int(model, "vocabulary", kWhat)},
                 {"n_positions", json_int(model, "context", kWhat)},
                 {"n_embd", width},
                 {"n_inner", 4 * width},
                 {"n_layer", json_int(model, "layers", kWhat)},
                 {"n_head", json_int(model, "heads", kWhat)},
                 {"activation_function", "gelu_new"},
                 {"layer_norm_epsilon", kEpsilon},
                 {kTie, true}};
  for (const char* const key : {"embd_pdrop", "resid_pdrop"}) config[key] = json_number(model, "dropout", kWhat);
  config["attn_pdrop"] = 0.0;
  add_no_ids(config);
  return config;
}

Json llama_config(const Json& model) {
  const auto width = json_int(model, "width", kWhat), heads = json_int(model, "heads", kWhat);
  Json config = {{"architectures", {"LlamaForCausalLM"}},
                 {"model_type", "llama"},
                 {"torch_dtype", "float32"},
                 {"vocab_size", json_int(model, "vocabulary", kWhat)},
                 {"max_position_embeddings", json_int(model, "context", kWhat)},
                 {"hidden_size", width},
                 {"intermediate_size", json_int(model, "hidden", kWhat)},
                 {"num_hidden_layers", json_int(model, "layers", kWhat)},
                 {"num_attention_heads", heads},
                 {"num_key_value_heads", json_int(model, "kv_heads", kWhat)},
                 {"head_dim", width / heads},
                 {"hidden_act", "silu"},
                 {"rms_norm_eps", kEpsilon},
                 {"rope_theta", json_number(model, "theta", kWhat)},
                 {"attention_bias", false},
                 {"mlp_bias", false},
                 {kTie, json_bool(model, "tie", kWhat)}};
  add_no_ids(config);
  return config;
}

std::string pretty(const Json& config) {
  return config.dump(2) + "\n";
}

// Of learned positions the model has as many as it was imported with.
std::string with_positions(const std::string& text, std::int64_t context) {
  Json config = parse_json(text, nn::kConfigFile);
  const bool same = config.is_object() && config.value(kPositions, Json()) == context;
  if (same || !config.is_object()) return text;
  config[kPositions] = context;
  if (config.contains("n_ctx")) config["n_ctx"] = context;
  return pretty(config);
}

}  // namespace

std::string config_json_of(const nn::Model& model, const std::string& name) {
  const std::string architecture = nn::architecture_of(model);
  if (!architecture.empty()) {
    const auto kept = model.kept.find(nn::kConfigFile);
    if (kept == model.kept.end()) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("{} has no {}, from which others know what it is", name, nn::kConfigFile),
                  "an earlier mlx imported or trained it: import or train it again");
    }
    const bool learned = architecture == "GPT2LMHeadModel";
    return learned ? with_positions(kept->second, context_of(model)) : kept->second;
  }
  if (model.family == "gpt2") return pretty(gpt2_config(parse_json(model.config, kWhat)));
  if (model.family == "llama") return pretty(llama_config(parse_json(model.config, kWhat)));
  throw Error(
      ErrorKind::kUsage,
      fmt::format("{} is no language model of an architecture that other programs have: its family is {}", name,
                  model.family),
      "exported are gpt2 and llama that `mlx train` made, and what came from a Hugging Face folder or GGUF file");
}

std::int64_t context_of(const nn::Model& model) {
  return json_int(parse_json(model.config, kWhat), "context", kWhat);
}

std::string with_own_head(const std::string& config) {
  Json json = parse_json(config, nn::kConfigFile);
  json[kTie] = false;
  return pretty(json);
}

std::string with_dtype(const std::string& config, const char* dtype) {
  Json json = parse_json(config, nn::kConfigFile);
  const char* const key = json.contains("dtype") ? "dtype" : "torch_dtype";
  if (!json.contains(key) || json[key] == dtype) return config;  // without one it is that of the weights
  json[key] = dtype;
  return pretty(json);
}

}  // namespace mlx::convert
