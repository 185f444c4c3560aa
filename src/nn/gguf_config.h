// The metadata of a GGUF file as a decoder's configuration, and names that differ. Used by gguf_model.cpp and
// convert/gguf_model_writer.cpp.
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
// The config.json of the same model in a Hugging Face folder, for read_decoder_config. Throws kCorrupt and kUsage,
// naming `what`, the file.
std::string read_gguf_config(const formats::GgufMetadata& metadata, const GgufFacts& facts, const std::string& what);
// What files call an architecture, which several may share: "llama". nullptr for one that they do not have.
const char* gguf_architecture(std::string_view architecture);
// The file's name of a tensor that has the name `name` in a Hugging Face folder: "blk.0.attn_q.weight".
std::string gguf_tensor_name(const std::string& name, const DecoderConfig& config);

}  // namespace mlx::nn
