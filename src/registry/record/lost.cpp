// There are few such operations, and they are needed only if content is missing, so no table holds them.
#include "registry/record/lost.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/json.h"
#include "registry/operations/content.h"
#include "registry/operations/history.h"
#include "registry/record/people.h"

namespace mlx::registry {

Losses lost_versions(Repository& repository) {
  return lost_versions(repository.db(), repository.kinds());
}

Losses lost_versions(store::Database& db, const Kinds& kinds) {
  Losses losses;
  store::Statement again = db.prepare(
      "SELECT 1 FROM version_makers m JOIN operations o ON o.id = ? WHERE m.digest = ? AND m.seq > o.seq LIMIT 1");
  visit_operations_naming(db, kinds, Role::kLost, [&](const Operation& operation) {
    for (const Digest& version : content_of(kinds, operation).of(Role::kLost)) {
      const bool made_again = again.bind(operation.id, version).step();
      again.reset();
      if (!made_again) losses.insert_or_assign(version, Loss{operation.id, operation.actor, operation.time});
    }
  });
  return losses;
}

std::optional<Loss> loss_of(Repository& repository, const Digest& manifest) {
  if (repository.store().has(store::ObjectKind::kManifest, manifest)) return std::nullopt;
  const Losses losses = lost_versions(repository);
  const auto found = losses.find(manifest);
  return found == losses.end() ? std::nullopt : std::optional(found->second);
}

std::string loss_text(Repository& repository, const Loss& loss) {
  const Names names(repository);
  const Person* const by = names.of(loss.actor);
  return fmt::format("its content was given up as lost on {} by {}", iso_time(loss.time), by ? by->name : loss.actor);
}

void record_lost(Repository& repository, const std::vector<Digest>& manifests) {
  Json versions = Json::array();
  for (const Digest& manifest : manifests) versions.push_back(manifest.text());
  repository.record("version.lost", {{"versions", versions}});
}

}  // namespace mlx::registry
