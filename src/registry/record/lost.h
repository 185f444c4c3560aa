// Versions whose content nobody has any more, as somebody has recorded: they may be published without it, and what
// reads them says so. No deletion: content that is still somewhere is used, and sent again, as that of other versions.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "registry/repository.h"

namespace mlx::registry {

struct Loss {
  Digest operation;  // that says so
  std::string actor;
  std::int64_t time = 0;  // unix microseconds
};
using Losses = std::unordered_map<Digest, Loss, DigestHash>;  // by manifest
// Without those that were made again since.
Losses lost_versions(store::Database& db, const Kinds& kinds);
Losses lost_versions(Repository& repository);
// Of one whose list of files is not here either.
std::optional<Loss> loss_of(Repository& repository, const Digest& manifest);
// "its content was given up as lost on 2026-11-23… by …"
std::string loss_text(Repository& repository, const Loss& loss);

// Records that the content of these versions is lost.
void record_lost(Repository& repository, const std::vector<Digest>& manifests);

}  // namespace mlx::registry
