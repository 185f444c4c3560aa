// See fetched_content.h.
#include "registry/sync/fetched_content.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "registry/operations/body.h"
#include "registry/operations/content.h"
#include "registry/operations/history.h"
#include "registry/operations/undone.h"
#include "registry/versions/artifacts.h"
#include "registry/versions/domains.h"
#include "registry/versions/pointers.h"
#include "store/crypto/keys.h"
#include "store/remote/transfer.h"

namespace mlx::registry {

using store::ObjectKind;
using store::ObjectRef;

std::string domain_of_content(Repository& repository, const Operation& operation, const Json& body) {
  const Kind& kind = repository.kinds().at(operation.kind);
  switch (kind.domain) {
    case ContentDomain::kHistory:
      break;
    case ContentDomain::kArtifact:
      return domain_of(repository, json_string(body, "artifact", operation.kind));
    case ContentDomain::kVersion: {
      const DigestField* const field = kind.content.find(Role::kReference);
      const std::optional<Digest> version = field ? Body(body).digest(*field) : std::nullopt;
      return version ? domain_of_version(repository, *version) : store::kMainDomain;
    }
  }
  return store::kHistoryDomain;
}

ByDomain wanted_manifests(Repository& repository, bool everything) {
  const bool encrypted = repository.store().encrypted();
  ByDomain wanted;
  const auto want = [&](const std::string& artifact, const Digest& manifest) {
    if (!erasure_of(repository, manifest))
      wanted[encrypted ? domain_of(repository, artifact) : std::string()].push_back(manifest);
  };
  for (const Pointer& pointer : all_pointers(repository)) want(pointer.artifact, pointer.digest);
  if (everything) {
    visit_versions(repository, [&](const Version& version) { want(version.artifact, version.digest); });
  }
  for (auto& [domain, manifests] : wanted) {
    std::ranges::sort(manifests);
    manifests.erase(std::unique(manifests.begin(), manifests.end()), manifests.end());
  }
  return wanted;
}

void leave_out_erased(Repository& repository, store::Remote& remote, std::vector<Digest>& manifests) {
  std::vector<ObjectRef> erased;
  for (const Digest& manifest : manifests)
    if (erasure_of_absent(repository, manifest)) erased.emplace_back(ObjectKind::kManifest, manifest);
  for (const auto& gone : store::missing_objects(remote, erased)) std::erase(manifests, gone.second);
}

ByDomain wanted_attachments(Repository& repository) {
  const bool encrypted = repository.store().encrypted();
  ByDomain wanted;
  InForce stands(repository.db(), repository.kinds());
  visit_operations_naming(repository.db(), repository.kinds(), Role::kBlob, [&](const Operation& operation) {
    const Json body = parse_json(operation.body, operation.kind);
    if (!stands(operation, body)) return;
    Content content;
    content.add(repository.kinds(), operation, body);
    for (const Digest& blob : content.of(Role::kBlob))
      wanted[encrypted ? domain_of_content(repository, operation, body) : std::string()].push_back(blob);
  });
  repository.store().reload();  // others may have stored objects meanwhile
  return wanted;
}

std::vector<Digest> without_lost(Repository& repository, const std::vector<Digest>& manifests, const Losses& lost,
                                 SyncResult& result, const std::function<void(const Digest&)>& receive) {
  std::vector<Digest> rest;
  for (const Digest& manifest : manifests) {
    const auto loss = lost.find(manifest);
    if (loss == lost.end()) {
      rest.push_back(manifest);
      continue;
    }
    try {
      receive(manifest);
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kNotFound) throw;
      result.remarks.push_back(fmt::format("version {}: {}", manifest.brief(), loss_text(repository, loss->second)));
    }
  }
  return rest;
}

}  // namespace mlx::registry
