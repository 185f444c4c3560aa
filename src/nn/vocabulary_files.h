// The tokenizer of a folder that has no tokenizer.json but the files of older programs: vocab.json and merges.txt, or
// vocab.txt, as the tokenizer.json that `transformers` makes of them. Used by hugging_face.cpp.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace mlx::nn {

// What a file of the folder holds; nullopt if there is no such file.
using ReadFile = std::function<std::optional<std::string>(const std::string& name)>;

// `architecture`: of config.json, which says what tokenizer it is if tokenizer_config.json does not. nullopt if there
// is no vocabulary. Throws kUsage for a tokenizer that is not supported, naming it and what is; kCorrupt, naming
// `folder` and the file, for files that do not fit.
std::optional<std::string> tokenizer_of_vocabulary_files(const ReadFile& read, const std::string& architecture,
                                                         const std::string& folder);

}  // namespace mlx::nn
