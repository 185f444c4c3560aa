// config.json of a Hugging Face folder: which decoder it describes. Used by decoder_graph.cpp and hugging_face.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/kernel.h"

namespace mlx::nn {

// What YaRN was given; `rope` and `sharpness` of a layer are computed from it.
struct YarnForm {
  std::int64_t original = 0;  // the context that the model was trained on first
  float fast = 32, slow = 1;  // turns in it
  double scale = 1;           // of queries and of keys
  bool usual = true;          // the scale follows from the factor, and the ramp begins and ends at whole pairs
};

// What a block's attention has of its own.
struct DecoderLayer {
  kernels::Attrs rope;           // theta and how turns are slowed
  std::string scaling;           // "linear", "llama3", "yarn"; "" for none
  std::optional<YarnForm> yarn;  // of "yarn"
  bool sliding = false;          // of the kind that has a window
  std::int64_t window = 0;       // positions that a query attends to; 0: all
  float sharpness = 1;           // what scores are multiplied by besides
};

// A stack of blocks over tokens, each with causal attention and an MLP behind a norm.
struct DecoderConfig {
  std::string architecture;  // "LlamaForCausalLM"
  std::int64_t vocabulary = 0, context = 0, width = 0, layers = 0;
  std::int64_t own_context = 0;                    // the model's own, which `context` may be shorter than
  std::int64_t heads = 0, kv_heads = 0, head = 0;  // head: the width of one
  std::int64_t hidden = 0;                         // the width of an MLP's inside
  std::int64_t positions = 0;                      // rows of the table of learned positions
  float epsilon = 0;                               // of the norms
  std::vector<DecoderLayer> blocks;                // one for each layer
  std::int64_t window = 0;                         // of layers of the kind that has one, as the file says; 0: none
  float score_cap = 0, logit_cap = 0;              // soft caps; 0: none
  bool gpt2 = false;   // learned positions, layer norms, GELU, transposed weights; else rotary, RMS norms, SwiGLU
  bool gemma = false;  // scaled embeddings, norms whose weights lack 1 and that follow layers too, a gate with GELU
  bool fused = false;  // queries, keys and values are one tensor, and so are gate and up
  bool head_norms = false;  // each head of queries and keys has a norm
  bool tie = false;         // the final layer shares the embedding's weights
  bool qkv_bias = false, output_bias = false, mlp_bias = false;
};

std::vector<std::string> decoder_architectures();
// `context`: the longest sequence to take, 0 for the model's own. Throws kCorrupt, naming `what` and the key, for
// numbers that no model has; kUsage, with a list of what there is, for what is not supported.
DecoderConfig read_decoder_config(std::string_view text, std::int64_t context, const std::string& what);

}  // namespace mlx::nn
