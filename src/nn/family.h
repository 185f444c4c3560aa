// Model families: from the table [model] of a config to a forward graph with initialised weights. A family is one file
// and one row in family.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/toml.h"
#include "nn/model.h"

namespace mlx::nn {

struct Built {
  std::string family;
  std::string config;  // canonical JSON, resolved: every default written out
  graph::Graph graph;  // forward; input "images" f32[batch,H,W,C], output "logits" (gpt2: "ids" s32[batch,sequence])
};

struct InputSpec {
  std::int64_t height = 0, width = 0, channels = 0;
  int classes = 0;
};

// Strict: unknown keys, wrong types and shapes that do not fit are kUsage with file and line.
Built build(TomlReader model, const InputSpec& input);

// Initial values for every parameter and state: Kaiming for layers before relu, Xavier otherwise, N(0, 0.02) for gpt2;
// keyed by (seed, name), so that the order of layers does not matter.
graph::Tensors initialize(const graph::Graph& graph, const std::string& family, std::uint64_t seed);

struct GptConfig {
  std::int64_t vocabulary = 0, context = 0, width = 0, heads = 0, layers = 0;
  float dropout = 0;
};
// ids s32[batch,sequence] → logits[batch,sequence,vocabulary]; pre-norm blocks, learned positions, tied head (GPT-2,
// Radford et al. 2019).
graph::Graph build_gpt2(const GptConfig& config);
// The same weights, decoding with a cache: also takes positions s32[batch] and keeps k/v caches[batch,context,width] as
// states.
graph::Graph build_gpt2_cached(const GptConfig& config);

}  // namespace mlx::nn
