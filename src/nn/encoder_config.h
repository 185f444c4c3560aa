// config.json of a Hugging Face folder: which encoder it describes. Used by encoder_graph.cpp and hugging_face.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/op.h"

namespace mlx::nn {

// A stack of blocks over tokens, each with attention in both directions and an MLP, with a norm behind each of both.
struct EncoderConfig {
  std::string architecture;  // "BertModel"
  std::int64_t vocabulary = 0, context = 0, width = 0, layers = 0, heads = 0;
  std::int64_t hidden = 0;          // the width of an MLP's inside
  std::int64_t positions = 0;       // rows of the table of positions
  std::int64_t first_position = 0;  // the row of a sequence's first token
  std::int64_t segments = 0;        // rows of the table of segments; 0: there is none
  float epsilon = 0;                // of the norms
  kernels::Op activation = kernels::Op::kGeluErf;
  bool distilled = false;                  // DistilBERT's names of tensors, else BERT's
  std::string prefix;                      // of tensors, where the model has more than the encoder: "bert."
  std::vector<std::string> other_parts{};  // beginnings of the names of tensors that are not the encoder's
};

std::vector<std::string> encoder_architectures();
// As read_decoder_config().
EncoderConfig read_encoder_config(std::string_view text, std::int64_t context, const std::string& what);

}  // namespace mlx::nn
