// See asked_model.h.
#include "cmd/asked_model.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/path.h"
#include "base/text.h"
#include "nn/gguf_model.h"
#include "nn/hugging_face.h"
#include "registry/repository.h"
#include "registry/versions/references.h"
#include "work/inputs.h"

namespace mlx::cmd {
namespace {

bool is_written_as_path(const std::string& word) {
  return word == "." || word == ".." || word.starts_with("./") || word.starts_with("../") || word.starts_with("/");
}

// A folder of Hugging Face or a GGUF file, which has to be imported before it is asked.
void refuse_models_of_others(const std::string& word, Context& context) {
  const std::string path = join_path(context.folder(), word);
  const bool file = word.ends_with(".gguf") && nn::may_be_gguf_file(path);
  if (!file && (!nn::is_hugging_face_folder(path) || nn::is_model_folder(path))) return;
  if (!is_written_as_path(word) && context.has_repository() && registry::try_resolve(context.repository(), word))
    return;
  throw Error(ErrorKind::kNotFound,
              fmt::format("{}: a {} of another program, not yet a model of mlx", printable(word),
                          file ? "GGUF file" : "model's folder"),
              fmt::format("`mlx import model {}` makes a version of it, in a repository", printable(word)));
}

AskedModel open_folder(const std::string& word, Context& context) {
  nn::FolderModel loaded = nn::load_model_folder(join_path(context.folder(), word));
  AskedModel asked;
  asked.version.artifact = word;
  while (asked.version.artifact.size() > 1 && asked.version.artifact.ends_with('/')) asked.version.artifact.pop_back();
  asked.version.kind = registry::ArtifactKind::kModel;
  asked.version.digest = loaded.digest;
  asked.model = std::move(loaded.model);
  return asked;
}

}  // namespace

bool names_model_folder(const std::string& word, Context& context) {
  refuse_models_of_others(word, context);
  if (is_written_as_path(word)) return true;
  if (!nn::is_model_folder(join_path(context.folder(), word))) return false;
  return !context.has_repository() || !registry::try_resolve(context.repository(), word);
}

std::optional<registry::Version> asked_version(const std::string& word, Context& context) {
  if (names_model_folder(word, context)) return std::nullopt;
  return work::resolve_model(context.repository(), word);
}

AskedModel open_model(const std::string& word, Context& context) {
  const std::optional<registry::Version> version = asked_version(word, context);
  if (!version) return open_folder(word, context);
  return {*version, nn::load_model(context.repository().store(), version->digest)};
}

}  // namespace mlx::cmd
