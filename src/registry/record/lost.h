// Versions whose content was recorded as lost everywhere. They can be published without it, and commands that read them
// report the loss. This deletes nothing: content that turns up is used, and sent again, like any other version's.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "registry/repository.h"

namespace mlx::registry {

struct Loss {
  Digest operation;  // the operation that recorded the loss
  std::string actor;
  std::int64_t time = 0;  // unix microseconds
};
using Losses = std::unordered_map<Digest, Loss, DigestHash>;  // by manifest
// Excludes versions that were made again since.
Losses lost_versions(store::Database& db, const Kinds& kinds);
Losses lost_versions(Repository& repository);
// The loss of one version, even if its file list is not here.
std::optional<Loss> loss_of(Repository& repository, const Digest& manifest);
// "its content was given up as lost on 2026-11-23… by …"
std::string loss_text(Repository& repository, const Loss& loss);

// Records that the content of these versions is lost.
void record_lost(Repository& repository, const std::vector<Digest>& manifests);

}  // namespace mlx::registry
