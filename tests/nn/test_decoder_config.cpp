// config.json of outside decoders: what is read, what is refused by name, and numbers that no model has.
#include "nn/decoder_config.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "base/json.h"
#include "graph/passes/passes.h"
#include "nn/decoder_graph.h"

using namespace mlx;
using namespace mlx::nn;

namespace {

Json llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"vocab_size", 40},
          {"hidden_size", 16},
          {"intermediate_size", 24},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"max_position_embeddings", 64},
          {"rms_norm_eps", 1e-5}};
}

DecoderConfig read(const Json& json, std::int64_t context = 0) {
  return read_decoder_config(json.dump(), context, "config.json");
}

// The message with which `patch`, merged into a Llama's config, is refused.
std::string refused(const Json& patch, ErrorKind kind, std::int64_t context = 0) {
  Json json = llama();
  json.merge_patch(patch);
  try {
    (void)read(json, context);
  } catch (const Error& error) {
    CHECK(error.kind == kind);
    return error.message;
  }
  return "it was read";
}

bool holds(const std::string& text, const char* part) {
  if (text.find(part) != std::string::npos) return true;
  MESSAGE(text);
  return false;
}

}  // namespace

TEST_CASE("decoder config: a Llama, its defaults and its scalings") {
  const DecoderConfig config = read(llama());
  CHECK(config.head == 4);
  CHECK(config.context == 64);
  CHECK(config.blocks[0].rope.theta == 10000.0f);
  CHECK(config.blocks[0].rope.slow == 1.0f);
  CHECK_FALSE(config.tie);
  CHECK_FALSE(config.qkv_bias);
  CHECK(read(llama(), 7).context == 7);

  Json scaled = llama();
  scaled["rope_scaling"] = {{"type", "linear"}, {"factor", 4}};
  CHECK(read(scaled).blocks[0].rope.slow == 4.0f);
  CHECK(read(scaled).blocks[0].rope.long_context == 0);
  scaled["rope_scaling"] = {{"type", "dynamic"}, {"factor", 4}};
  CHECK(read(scaled).blocks[0].rope.slow == 1.0f);
  scaled.erase("rope_scaling");
  scaled["rope_parameters"] = {
      {"rope_type", "llama3"}, {"rope_theta", 500000},    {"factor", 8},
      {"low_freq_factor", 1},  {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 32}};
  CHECK(read(scaled).blocks[0].rope.theta == 500000.0f);
  CHECK(read(scaled).blocks[0].rope.long_context == 32);

  Json qwen2 = llama();
  qwen2["architectures"] = {"Qwen2ForCausalLM"};
  qwen2["sliding_window"] = 8, qwen2["use_sliding_window"] = false;
  CHECK(read(qwen2).qkv_bias);
  CHECK_FALSE(read(qwen2).output_bias);
  Json mistral = llama();
  mistral["architectures"] = {"MistralForCausalLM"};
  mistral["max_position_embeddings"] = 8192;
  CHECK(read(mistral).blocks[1].window == 4096);  // bug: it was taken for null
  mistral["sliding_window"] = nullptr;
  CHECK(read(mistral).blocks[1].window == 0);
  mistral["max_position_embeddings"] = 64, mistral["sliding_window"] = 64;
  CHECK(read(mistral).context == 64);
  CHECK(read(mistral).blocks[1].window == 0);
  mistral["sliding_window"] = 32;
  CHECK(read(mistral).blocks[1].window == 32);
  CHECK(read(mistral, 32).blocks[1].window == 0);
  qwen2["use_sliding_window"] = true, qwen2["max_window_layers"] = 1;
  CHECK(read(qwen2).blocks[0].window == 0);
  CHECK(read(qwen2).blocks[1].window == 8);
}

TEST_CASE("decoder config: what is not supported is refused by name") {
  const auto usage = [](const Json& patch) { return refused(patch, ErrorKind::kUsage); };
  CHECK(holds(usage({{"architectures", {"MambaForCausalLM"}}}),
              "the architecture \"MambaForCausalLM\" is not supported"));
  CHECK(holds(usage({{"rope_scaling", {{"rope_type", "longrope"}, {"factor", 2}}}}),
              "rope_type 'longrope' is not supported"));
  CHECK(holds(usage({{"hidden_act", "gelu"}}), "the activation 'gelu' is not supported"));
  CHECK(holds(usage({{"partial_rotary_factor", 0.5}}), "partial_rotary_factor"));
  CHECK(holds(usage({{"quantization_config", {{"quant_method", "gptq"}}}}),
              "a quantization (\"gptq\") is not supported"));
  CHECK(
      holds(usage({{"layer_types", {"chunked_attention", "full_attention"}}}), "the layer type \"chunked_attention\""));
  CHECK(holds(usage({{"max_position_embeddings", 1 << 24}}), "a context of 16777216 is longer than"));
  CHECK(holds(refused(Json::object(), ErrorKind::kUsage, 65), "a context of 65 was asked for, the model's own is 64"));
}

TEST_CASE("decoder config: numbers that no model has, and keys that are missing") {
  const auto corrupt = [](const Json& patch) { return refused(patch, ErrorKind::kCorrupt); };
  for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                          "max_position_embeddings"}) {
    CAPTURE(key);
    CHECK(holds(corrupt({{key, nullptr}}), "is missing"));
    for (const Json& bad :
         {Json(0), Json(-1), Json(1.5), Json("8"), Json(std::int64_t{1} << 62), Json(1e300), Json::array()})
      CHECK(holds(corrupt({{key, bad}}), "expected an integer from 1 to"));
  }
  CHECK(holds(corrupt({{"num_key_value_heads", 3}}), "3 num_key_value_heads do not divide 4"));
  CHECK(holds(corrupt({{"num_attention_heads", 6}}), "do not divide"));
  CHECK(holds(corrupt({{"head_dim", 5}}), "expected an even width"));
  CHECK(holds(corrupt({{"head_dim", 1 << 20}}), "expected an even width"));
  CHECK(holds(corrupt({{"rms_norm_eps", -1}}), "'rms_norm_eps': expected a number"));
  CHECK(holds(corrupt({{"rope_theta", 0}}), "'rope_theta': expected a number"));
  CHECK(holds(corrupt({{"rope_scaling", {{"type", "linear"}}}}), "the key 'factor' is missing"));
  CHECK(holds(corrupt({{"rope_scaling", {{"type", "linear"}, {"factor", 0.5}}}}), "'factor': expected a number"));
  CHECK(holds(corrupt({{"rope_scaling", 3}}), "'rope_scaling': expected an object"));
  CHECK(holds(corrupt({{"tie_word_embeddings", 1}}), "'tie_word_embeddings': expected true or false"));
  CHECK(holds(corrupt({{"architectures", Json::array()}}), "'architectures': expected one name"));
  CHECK_THROWS_AS(read(Json::array()), Error);
}

TEST_CASE("decoder config: YaRN") {
  Json json = llama();
  json["head_dim"] = 64, json["rope_theta"] = 10000;
  json["rope_scaling"] = {{"rope_type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 4096}};
  const DecoderLayer layer = read(json).blocks[0];
  // 64 ln(4096 / 2 pi n) / (2 ln 10000) is 10.5 for n = 32, and 22.5 for n = 1.
  CHECK(layer.rope.ramp_begin == 10.0f);
  CHECK(layer.rope.ramp_end == 23.0f);
  CHECK(layer.rope.slow == 4.0f);
  CHECK(layer.sharpness == doctest::Approx(1.138629 * 1.138629));
  json["rope_scaling"]["attention_factor"] = 1, json["rope_scaling"]["truncate"] = false;
  CHECK(read(json).blocks[0].sharpness == 1.0f);
  CHECK(read(json).blocks[0].rope.ramp_begin == doctest::Approx(10.47).epsilon(0.001));
}

TEST_CASE("decoder config: Gemma's layers") {
  Json json = llama();
  json["architectures"] = {"Gemma3ForCausalLM"};
  json["num_hidden_layers"] = 7, json["sliding_window"] = 8, json["rope_theta"] = 1e6, json["head_dim"] = 64;
  json["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8}};
  DecoderConfig config = read(json);
  CHECK(config.tie);
  CHECK(config.head_norms);
  CHECK(config.blocks[0].window == 8);
  CHECK(config.blocks[0].rope.theta == 10000.0f);
  CHECK(config.blocks[0].rope.slow == 1.0f);
  CHECK(config.blocks[5].window == 0);
  CHECK(config.blocks[5].rope.theta == 1e6f);
  CHECK(config.blocks[5].rope.slow == 8.0f);
  CHECK(config.blocks[6].sharpness == 0.5f);  // of 64 and 256
  json["architectures"] = {"Gemma2ForCausalLM"};
  json["attn_logit_softcapping"] = 50, json["final_logit_softcapping"] = nullptr;
  json.erase("rope_scaling");
  config = read(json);
  CHECK(config.blocks[0].window == 8);
  CHECK(config.blocks[1].window == 0);
  CHECK(config.score_cap == 50.0f);
  CHECK(config.logit_cap == 0.0f);
  json["attn_logit_softcapping"] = -1;
  CHECK_THROWS_AS(read(json), Error);
  // bug: without the keys there were no caps; only null says so.
  json.erase("attn_logit_softcapping"), json.erase("final_logit_softcapping");
  CHECK(read(json).score_cap == 50.0f);
  CHECK(read(json).logit_cap == 30.0f);
}

TEST_CASE("decoder graph: all architectures decode with a cache") {
  for (const char* name :
       {"LlamaForCausalLM", "Qwen3ForCausalLM", "Phi3ForCausalLM", "Gemma2ForCausalLM", "Gemma3ForCausalLM"}) {
    CAPTURE(name);
    Json json = llama();
    json["architectures"] = {name};
    json["sliding_window"] = 8;
    const graph::Graph graph = graph::to_inference(build_decoder(read(json), "model.").graph);
    CHECK(graph::decodes_with_cache(graph));
    CHECK(graph::to_decoding(graph).context == 64);
  }
}

TEST_CASE("decoder graph: every parameter has its source, and only those") {
  const OutsideGraph decoder = build_decoder(read(llama()), "model.");
  std::size_t parameters = 0;
  for (const graph::Value& value : decoder.graph.values) {
    if (value.role != graph::Role::kParameter) continue;
    ++parameters;
    const auto source = decoder.sources.find(value.name);
    REQUIRE(source != decoder.sources.end());
    std::int64_t rows = 0;
    for (const ParameterSource::Part& part : source->second.parts) rows += part.shape[0];
    CHECK(rows == value.dims[0].size);
  }
  CHECK(parameters == decoder.sources.size());
}
