// Reads config.json, of which nothing is trusted (config_keys.h). What changes the computation is either known or
// refused.

#include "nn/encoder_config.h"

#include <utility>

#include "base/error.h"
#include "nn/config_keys.h"

namespace mlx::nn {
namespace {

using kernels::Op;

void read_activation_of(const ConfigKeys& keys, const char* key, EncoderConfig& config) {
  const std::string name = keys.string(key, "gelu");
  check_one_of(keys, "the activation", name, {"gelu", "gelu_new", "gelu_pytorch_tanh", "relu"},
               "gelu, gelu_new, gelu_pytorch_tanh, relu");
  if (name == "relu") config.activation = Op::kRelu;
  if (name.starts_with("gelu_")) config.activation = Op::kGelu;
}

void check_heads(const ConfigKeys& keys, const EncoderConfig& config) {
  if (config.width % config.heads == 0) return;
  fail(ErrorKind::kCorrupt, "{}: {} heads do not divide the width {}", keys.what, config.heads, config.width);
}

void read_bert(const ConfigKeys& keys, EncoderConfig& config) {
  config.prefix = "bert.";
  config.other_parts = {"pooler.", "cls."};
  config.width = keys.integer("hidden_size", kMostWide);
  config.hidden = keys.integer("intermediate_size", kMostWide);
  config.layers = keys.integer("num_hidden_layers", kMostLayers);
  config.heads = keys.integer("num_attention_heads", kMostHeads);
  config.positions = keys.integer("max_position_embeddings", kMostPositions);
  config.segments = keys.integer("type_vocab_size", kMostWide, 2);
  config.epsilon = keys.number("layer_norm_eps", 0, 1, 1e-12);
  read_activation_of(keys, "hidden_act", config);
  check_one_of(keys, "the position_embedding_type", keys.string("position_embedding_type", "absolute"), {"absolute"},
               "absolute");
  if (keys.boolean("is_decoder", false) || keys.boolean("add_cross_attention", false))
    keys.unsupported("is_decoder or add_cross_attention", "encoders");
}

// Positions begin behind the padding's, which the table has a row for as the one of tokens has.
void read_roberta(const ConfigKeys& keys, EncoderConfig& config) {
  read_bert(keys, config);
  config.prefix = "roberta.";
  config.other_parts = {"pooler.", "lm_head."};
  const Json* const padding = keys.find("pad_token_id");
  const bool first = padding && padding->is_number_integer() && padding->get<std::int64_t>() == 0;
  config.first_position = first ? 1 : keys.integer("pad_token_id", kMostVocabulary, 1) + 1;
  if (config.first_position >= config.positions)
    fail(ErrorKind::kCorrupt, "{}: {} 'max_position_embeddings' leave none behind 'pad_token_id'", keys.what,
         config.positions);
}

void read_distilbert(const ConfigKeys& keys, EncoderConfig& config) {
  config.distilled = true;
  config.prefix = "distilbert.";
  config.other_parts = {"vocab_transform.", "vocab_layer_norm.", "vocab_projector."};
  config.width = keys.integer("dim", kMostWide);
  config.hidden = keys.integer("hidden_dim", kMostWide);
  config.layers = keys.integer("n_layers", kMostLayers);
  config.heads = keys.integer("n_heads", kMostHeads);
  config.positions = keys.integer("max_position_embeddings", kMostPositions);
  config.epsilon = 1e-12f;
  read_activation_of(keys, "activation", config);
}

struct EncoderArchitecture {
  const char* name;
  void (*read)(const ConfigKeys& keys, EncoderConfig& config);
};
constexpr EncoderArchitecture kEncoders[] = {
    {"BertModel", read_bert},
    {"BertForMaskedLM", read_bert},
    {"BertForPreTraining", read_bert},
    {"RobertaModel", read_roberta},
    {"RobertaForMaskedLM", read_roberta},
    {"XLMRobertaModel", read_roberta},
    {"XLMRobertaForMaskedLM", read_roberta},
    {"DistilBertModel", read_distilbert},
    {"DistilBertForMaskedLM", read_distilbert},
};

const EncoderArchitecture& encoder_of(const ConfigKeys& keys) {
  const std::string name = architecture_named_by(keys);
  for (const EncoderArchitecture& each : kEncoders)
    if (name == each.name) return each;
  refuse_architecture(keys, name, encoder_architectures());
}

}  // namespace

std::vector<std::string> encoder_architectures() {
  std::vector<std::string> names;
  for (const EncoderArchitecture& each : kEncoders) names.emplace_back(each.name);
  return names;
}

EncoderConfig read_encoder_config(std::string_view text, std::int64_t context, const std::string& what) {
  const Json json = parse_json(text, what);
  if (!json.is_object()) fail(ErrorKind::kCorrupt, "{}: expected an object, got {}", what, json.type_name());
  const ConfigKeys keys{json, what};
  const EncoderArchitecture& architecture = encoder_of(keys);
  check_not_quantized(keys);
  EncoderConfig config;
  config.architecture = architecture.name;
  config.vocabulary = keys.integer("vocab_size", kMostVocabulary);
  architecture.read(keys, config);
  check_heads(keys, config);
  config.context = context_within(keys, config.positions - config.first_position, context);
  return config;
}

}  // namespace mlx::nn
