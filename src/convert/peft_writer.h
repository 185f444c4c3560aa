// The adapters of a model in the layout of the package `peft`. Used by `mlx export model`.
#pragma once

#include <string>

#include "convert/hugging_face_writer.h"

namespace mlx::convert {

// adapter_config.json and adapter_model.safetensors, for the folder that hugging_face_folder makes of the model that
// they were trained on. Throws kUsage, naming `name`, if the model has no adapters, and as decoder_of does.
WrittenModel peft_folder(const nn::Model& model, const WriteOptions& options, const std::string& name);

}  // namespace mlx::convert
