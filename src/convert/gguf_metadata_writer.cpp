// The keys are those of llama.cpp (src/llama-arch.cpp there); what nn/gguf_config.cpp reads.

#include "convert/gguf_metadata_writer.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "nn/gguf_config.h"
#include "nn/rope_factors.h"

namespace mlx::convert {
namespace {

using nn::DecoderConfig;
using nn::DecoderLayer;

[[noreturn]] void computes_otherwise(const std::string& name, const std::string& what) {
  throw Error(ErrorKind::kUsage, fmt::format("{}: llama.cpp does not compute {}", name, what),
              "--format hf keeps whatever the model is");
}

// Adds keys of one architecture.
struct ArchitectureKeys {
  GgufHeader& header;
  std::string prefix;

  template <typename Value>
  void add(const char* key, Value value) {
    header.add(prefix + key, value);
  }
  void count(const char* key, std::int64_t value) { header.add(prefix + key, static_cast<std::uint32_t>(value)); }
};

// The layer whose rotary positions are the model's: one that sees all, if there is one.
const DecoderLayer& whole_layer(const DecoderConfig& config) {
  const auto found = std::ranges::find(config.blocks, false, &DecoderLayer::sliding);
  return found == config.blocks.end() ? config.blocks.front() : *found;
}

void add_rope(const DecoderConfig& config, const std::string& name, ArchitectureKeys& keys) {
  const DecoderLayer& layer = whole_layer(config);
  keys.count("rope.dimension_count", config.head);
  keys.add("rope.freq_base", layer.rope.theta);
  if (layer.scaling.empty()) return;
  if (layer.scaling == "llama3") return keys.count("rope.scaling.original_context_length", layer.rope.long_context);
  keys.add("rope.scaling.type", layer.scaling);
  keys.add("rope.scaling.factor", layer.rope.slow);
  if (!layer.yarn) return;
  if (!layer.yarn->usual) computes_otherwise(name, "YaRN with an attention factor or a ramp of its own");
  keys.count("rope.scaling.original_context_length", layer.yarn->original);
  if (layer.yarn->fast != nn::YarnForm{}.fast) keys.add("rope.scaling.yarn_beta_fast", layer.yarn->fast);
  if (layer.yarn->slow != nn::YarnForm{}.slow) keys.add("rope.scaling.yarn_beta_slow", layer.yarn->slow);
}

// llama.cpp knows by the architecture which layers have a window and how scores are scaled.
void add_gemma(const DecoderConfig& config, const std::string& name, ArchitectureKeys& keys) {
  const bool third = config.architecture == "Gemma3ForCausalLM";
  const std::size_t pattern = third ? 6 : 2, layers_of_27b = third ? 62 : 46;
  for (std::size_t i = 0; i < config.blocks.size(); ++i)
    if (config.window > 0 && config.blocks[i].sliding != ((i + 1) % pattern != 0))
      computes_otherwise(name, "windows in other layers than those of the published models");
  const std::int64_t by = config.blocks.size() == layers_of_27b ? config.width / config.heads : config.head;
  const auto divided = static_cast<double>(by);
  const DecoderLayer& layer = whole_layer(config);
  const double sharper = layer.yarn ? layer.yarn->scale * layer.yarn->scale : 1;
  if (std::fabs(double{layer.sharpness} / sharper / std::sqrt(static_cast<double>(config.head) / divided) - 1) > 1e-5)
    computes_otherwise(name, fmt::format("scores divided by another number than the root of {}", divided));
  if (third ? config.score_cap != 0 : config.score_cap == 0 || config.logit_cap == 0)
    computes_otherwise(name, third ? "a soft cap of scores in Gemma 3" : "Gemma 2 without soft caps");
  if (config.score_cap > 0) keys.add("attn_logit_softcapping", config.score_cap);
  if (config.logit_cap > 0) keys.add("final_logit_softcapping", config.logit_cap);
  if (config.window == 0) return;
  keys.count("attention.sliding_window", config.window);
  for (const DecoderLayer& local : config.blocks) {
    if (!local.sliding) continue;
    if (third && !local.scaling.empty()) computes_otherwise(name, "scaled rotary positions in layers with a window");
    if (third) return keys.add("rope.freq_base_swa", local.rope.theta);
  }
}

void add_windows(const DecoderConfig& config, const std::string& name, ArchitectureKeys& keys,
                 std::vector<std::string>& warnings) {
  const auto has_window = [](const DecoderLayer& layer) { return layer.window > 0; };
  if (std::ranges::none_of(config.blocks, has_window)) return;
  const std::string own = fmt::format("{} has windows of {} tokens", name, config.window);
  if (!std::ranges::all_of(config.blocks, has_window) || config.architecture.starts_with("Qwen"))
    throw Error(ErrorKind::kUsage, own + " in its layers, which llama.cpp does not compute for this architecture",
                fmt::format("import the model with --context {} or less, which they do not change", config.window));
  keys.count("attention.sliding_window", config.window);
  warnings.push_back(own + ", which llama.cpp does not apply: in longer texts its answers differ");
}

void add_rotary(const DecoderConfig& config, const std::string& name, ArchitectureKeys& keys,
                std::vector<std::string>& warnings) {
  keys.count("context_length", config.own_context);
  keys.count("feed_forward_length", config.hidden);
  keys.count("attention.head_count", config.heads);
  keys.count("attention.head_count_kv", config.kv_heads);
  keys.count("attention.key_length", config.head);
  keys.count("attention.value_length", config.head);
  keys.add("attention.layer_norm_rms_epsilon", config.epsilon);
  add_rope(config, name, keys);
  if (config.gemma)
    add_gemma(config, name, keys);
  else
    add_windows(config, name, keys, warnings);
}

void add_gpt2(const DecoderConfig& config, ArchitectureKeys& keys) {
  keys.count("context_length", config.positions);
  keys.count("feed_forward_length", config.hidden);
  keys.count("attention.head_count", config.heads);
  keys.add("attention.layer_norm_epsilon", config.epsilon);
}

// Biases that the graphs of llama.cpp leave out.
void check_biases(const DecoderConfig& config, const std::string& name) {
  const std::string& as = config.architecture;
  if (as == "Qwen3ForCausalLM" || config.gemma) {
    if (config.qkv_bias || config.output_bias) computes_otherwise(name, "biases of attention in this architecture");
  }
}

}  // namespace

std::vector<float> gguf_rope_factors(const DecoderConfig& config) {
  const DecoderLayer& layer = whole_layer(config);
  std::vector<float> out;
  if (layer.scaling != "llama3") return out;
  const nn::RopeFactors factors{double{layer.rope.slow}, double{layer.rope.long_low}, double{layer.rope.long_high},
                                layer.rope.long_context};
  for (std::int64_t i = 0; i < config.head / 2; ++i)
    out.push_back(static_cast<float>(factors.at(i, config.head, double{layer.rope.theta})));
  return out;
}

void add_gguf_metadata(const DecoderConfig& config, const std::string& name, GgufHeader& header,
                       std::vector<std::string>& warnings) {
  const char* const architecture = nn::gguf_architecture(config.architecture);
  if (!architecture) computes_otherwise(name, "the architecture " + config.architecture);
  check_biases(config, name);
  header.add("general.architecture", architecture);
  header.add("general.name", name);
  ArchitectureKeys keys{header, std::string(architecture) + "."};
  keys.count("vocab_size", config.vocabulary);
  keys.count("embedding_length", config.width);
  keys.count("block_count", config.layers);
  if (config.gpt2) return add_gpt2(config, keys);
  add_rotary(config, name, keys, warnings);
}

}  // namespace mlx::convert
