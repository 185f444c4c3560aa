// What the files say that an outside model came with: its chat template, and the tokens around texts. Used by
// infer/chat.cpp and by what writes models for other programs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "nn/model.h"

namespace mlx::nn {

// An empty object if the model came without the file. Throws kCorrupt if it holds no object.
Json kept_json(const Model& model, const char* file);
// nullopt if there is none; throws kUsage if several have names and none is the default.
std::optional<std::string> chat_template(const Model& model);
// Numbers of tokens that are in the vocabulary, by a key like "eos_token_id": one or a list, of generation_config.json
// and then of config.json.
std::vector<std::int32_t> token_ids(const Model& model, const char* key);
// Texts of tokens by the names that templates have for them, such as "bos_token". Needs a tokenizer.
std::vector<std::pair<std::string, std::string>> token_names(const Model& model);

}  // namespace mlx::nn
