// Model families: from the table [model] of a config to a forward graph and its initial weights. A family is one file
// and one row in family.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/toml.h"
#include "nn/model.h"

namespace mlx::data {
struct Description;
}

namespace mlx::nn {

struct Built {
  std::string family;
  std::string config;                     // canonical JSON, resolved: with every default
  graph::Graph graph;                     // forward; its only output is "logits"
  std::int64_t context = 0;               // tokens: the longest sequence that the model takes
  std::vector<std::string> zeros{};       // parameters that start at zero, whatever initialize() would give
  std::vector<std::string> frozen{};      // parameters that are not trained (nn/finetune.h)
  bool lora = false;                      // only adapters are trained, beside the base's weights (nn/finetune.h)
  std::optional<graph::Graph> teacher{};  // the inference graph of a model whose logits it learns from
};

// The network's input, which the data determines, and the size of its output.
using InputKind = data::Form;
struct InputSpec {
  InputKind kind = InputKind::kImages;
  std::int64_t height = 0, width = 0, channels = 0;  // images: input f32[batch,H,W,C]
  std::int64_t features = 0;                         // features: input f32[batch,F]
  std::int64_t vocabulary = 0;                       // tokens: input "ids" s32[batch,sequence], logits at each position
  std::int64_t outputs = 0;                          // images and features: number of classes, labels or numbers
  const char* name = "images";                       // of the graph's input: data::Kind::input

  static InputSpec of(const data::Description& data);
  static InputSpec images(std::int64_t height, std::int64_t width, std::int64_t channels, std::int64_t outputs) {
    return {InputKind::kImages, height, width, channels, 0, 0, outputs, "images"};
  }
  static InputSpec rows(std::int64_t features, std::int64_t outputs) {
    return {InputKind::kFeatures, 0, 0, 0, features, 0, outputs, "features"};
  }
  static InputSpec tokens(std::int64_t vocabulary) { return {InputKind::kTokens, 0, 0, 0, 0, vocabulary, 0, "ids"}; }
};

// Strict: throws kUsage with file and line for unknown keys, wrong types, shapes that do not fit, and a family that
// does not take this kind of data. `given` is the graph of the model that training starts from, or null; the family
// "imported" needs one.
Built build(TomlReader model, const InputSpec& input, const graph::Graph* given = nullptr);
bool takes(const std::string& family, InputKind input);  // false for an unknown name
std::vector<std::string> family_names();  // in the order of the table; stored in model.json, so they never change

// Initial values for every parameter and state: Kaiming for layers before a relu, Xavier otherwise. Families over
// tokens use N(0, 0.02²); layers whose output is added to a residual are divided by the square root of the number of
// such layers. Keyed by (seed, name), so that the order of layers does not matter.
graph::Tensors initialize(const graph::Graph& graph, const std::string& family, std::uint64_t seed);
// The same, but zero for the parameters in `built.zeros`.
graph::Tensors initialize(const Built& built, std::uint64_t seed);

struct GptConfig {
  std::int64_t vocabulary = 0, context = 0, width = 0, heads = 0, layers = 0;
  float dropout = 0;
};
// ids s32[batch,sequence] → logits[batch,sequence,vocabulary]; pre-norm blocks, learned positions, tied head (GPT-2,
// Radford et al. 2019). graph::to_decoding turns it into a graph that decodes with a cache.
graph::Graph build_gpt2(const GptConfig& config);

struct LlamaConfig {
  std::int64_t vocabulary = 0, context = 0, width = 0, heads = 0, layers = 0;
  float dropout = 0;
  std::int64_t kv_heads = 0, hidden = 0;
  float theta = 10000;
  bool tie = false;  // the final layer shares the embedding's weights
};
// The same with RMS norm, rotary positions, grouped queries and SwiGLU, without biases (LLaMA, Touvron et al. 2023).
graph::Graph build_llama(const LlamaConfig& config);

}  // namespace mlx::nn
