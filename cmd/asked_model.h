// The MODEL of `mlx predict`, `eval` and `serve`: a version in the repository, or a folder with a model's files, for
// which no repository is needed.
#pragma once

#include <optional>
#include <string>

#include "cmd/cli/cli.h"
#include "nn/model.h"
#include "registry/versions/artifacts.h"

namespace mlx::cmd {

// Whether `word` names a folder with a model and not a version: if it begins like a path (./, ../, /) in any
// case, else if there is no version of this name. Throws kNotFound for models of other programs, with what to do.
bool names_model_folder(const std::string& word, Context& context);

struct AskedModel {
  registry::Version version;  // of a folder: called as the folder is, number 0
  nn::Model model;
};
// The version that `word` names, without its model; none for a folder, whose digest is known once its files are read.
// Throws as open_model().
std::optional<registry::Version> asked_version(const std::string& word, Context& context);
// kUsage for a dataset; kNotFound, outside of a repository too.
AskedModel open_model(const std::string& word, Context& context);

}  // namespace mlx::cmd
