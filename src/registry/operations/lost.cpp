// There are few such operations, and they are asked for only where content is missing: no table holds what they say.
#include "registry/operations/lost.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/json.h"
#include "registry/keys/people.h"
#include "registry/operations/apply.h"

namespace mlx::registry {
namespace {

std::vector<Digest> digests_under_versions(const Json& body, const std::string& what) {
  std::vector<Digest> versions;
  for (const Json& version : json_array(body, "versions", what)) {
    if (version.is_string()) versions.push_back(Digest::parse(version.get_ref<const std::string&>()));
  }
  return versions;
}

}  // namespace

// Only what people are told follows from it.
void apply_version_lost(const Application& a) {
  const std::vector<Digest> versions = digests_under_versions(a.body, a.what());
  if (versions.size() != json_array(a.body, "versions", a.what()).size()) a.corrupt("'versions': expected digests");
  store::Statement makers = a.db.prepare("SELECT seq FROM version_makers WHERE digest = ? ORDER BY seq");
  for (const Digest& version : versions) {
    for (makers.bind(version); makers.step();) {
      const Made made = maker_at(a.db, makers.int64(0));
      if (made.maker != a.maker()) return a.changes("gives up the content of versions by", made.actor);
    }
    makers.reset();
  }
}

Losses lost_versions(Repository& repository) {
  return lost_versions(repository.db());
}

Losses lost_versions(store::Database& db) {
  Losses losses;
  store::Statement select = db.prepare("SELECT seq, bytes FROM operations WHERE kind = ? ORDER BY seq");
  store::Statement again = db.prepare("SELECT 1 FROM version_makers WHERE digest = ? AND seq > ? LIMIT 1");
  for (select.bind(kLostKind); select.step();) {
    const Operation operation = decode(select.blob(1));
    for (const Digest& version : lost_by(operation)) {
      const bool made_again = again.bind(version, select.int64(0)).step();
      again.reset();
      if (!made_again) losses.insert_or_assign(version, Loss{operation.id, operation.actor, operation.time});
    }
  }
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

std::vector<Digest> lost_by(const Operation& operation) {
  if (operation.kind != kLostKind) return {};
  return digests_under_versions(parse_json(operation.body, operation.kind), operation.kind);
}

void record_lost(Repository& repository, const std::vector<Digest>& manifests) {
  Json versions = Json::array();
  for (const Digest& manifest : manifests) versions.push_back(manifest.text());
  repository.record(kLostKind, {{"versions", versions}});
}

}  // namespace mlx::registry
