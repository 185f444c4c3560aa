// The config.json of a model, which it came with or which describes what `mlx train` made. Used by parts.cpp and
// hugging_face_writer.cpp.
#pragma once

#include <string>

#include "nn/model.h"

namespace mlx::convert {

// Throws kUsage, naming `name`, if the model is no language model, has no architecture of other programs, or lacks the
// file that it came with.
std::string config_json_of(const nn::Model& model, const std::string& name);
// The longest sequence that the model takes, which may be shorter than its own.
std::int64_t context_of(const nn::Model& model);
// The same config with a final layer of its own.
std::string with_own_head(const std::string& config);
// The same config for weights of the type `dtype` ("bfloat16").
std::string with_dtype(const std::string& config, const char* dtype);

}  // namespace mlx::convert
