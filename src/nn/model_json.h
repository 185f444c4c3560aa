// model.json, the description of a model (mlx-format-model(5)). Used by model.cpp, which stores and loads whole models.
#pragma once

#include "nn/model.h"

namespace mlx::nn {

inline constexpr const char* kModelFile = "model.json";
inline constexpr const char* kWeightsFile = "weights.safetensors";
inline constexpr const char *kConfigFile = "config.json", *kGenerationFile = "generation_config.json",
                            *kTokenizerConfigFile = "tokenizer_config.json", *kChatTemplateFile = "chat_template.jinja";
// What is kept of an outside model, beside its weights and tokenizer.
inline constexpr const char* kKeptFiles[] = {kConfigFile, kGenerationFile, kTokenizerConfigFile, kChatTemplateFile};
inline constexpr const char* kTokenizerFiles[] = {"tokenizer.json", "tokenizer.model"};  // a model has one or none

// Everything but the tensors. Returns a complete, consistent model whatever `json` holds, or throws kCorrupt naming
// `what` and the key.
Model model_from_json(const Json& json, const std::string& what);
// The name of a tensor's type in the Open Inference Protocol: "FP32", "INT64".
const char* datatype_name(graph::DType dtype);
// Checks only format and version; throws kCorrupt if this mlx cannot read them.
void check_model_format(const Json& json, const std::string& what);

// Throws kRefused if `path` is a symbolic link that leads out of `folder`.
void check_inside(const std::string& folder, const std::string& path);

}  // namespace mlx::nn
