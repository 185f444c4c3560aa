// See asked_model.h.
#include "cmd/asked_model.h"

#include "base/path.h"
#include "registry/repository.h"
#include "registry/versions/references.h"
#include "work/inputs.h"

namespace mlx::cmd {
namespace {

bool is_written_as_path(const std::string& word) {
  return word == "." || word == ".." || word.starts_with("./") || word.starts_with("../") || word.starts_with("/");
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
