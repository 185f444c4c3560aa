// The metadata of a GGUF file as a decoder's configuration. Used by gguf_model.cpp.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/gguf.h"
#include "nn/decoder_config.h"

namespace mlx::nn {

// The tensors that decide what the model is.
struct GgufFacts {
  std::int64_t vocabulary = 0;                     // rows of the embedding
  std::function<bool(std::string_view name)> has;  // whether there is such a tensor
  std::vector<float> rope_factors;                 // of rope_freqs.weight; empty where it is absent
};
// `context` and `what` as of read_decoder_config, and so are its errors.
DecoderConfig read_gguf_config(const formats::GgufMetadata& metadata, const GgufFacts& facts, std::int64_t context,
                               const std::string& what);
// The file's name of a tensor that has the name `name` in a Hugging Face folder: "blk.0.attn_q.weight".
std::string gguf_tensor_name(const std::string& name, const DecoderConfig& config);

}  // namespace mlx::nn
