// Records and looks up assignments and erasures; operations/kinds/keys.cpp writes their tables.
#include "registry/versions/domains.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/toml.h"
#include "registry/keys/keys.h"
#include "registry/versions/lineage.h"
#include "registry/versions/pointers.h"
#include "registry/versions/runs.h"
#include "store/maintenance/reencrypt.h"

namespace mlx::registry {
namespace {

// An erasure of `main`, the domain of every unassigned artifact, counts only where it was made. Other clones are told,
// and may repeat it.
std::string counts(Repository& repository) {
  std::string own;  // only hex digits
  for (const std::string& actor : repository.own_actors()) own += fmt::format("{}'{}'", own.empty() ? "" : ",", actor);
  return fmt::format("(e.domain <> 'main' OR e.actor IN ({}))", own);
}

constexpr const char* kAll = "1";  // an alternative to counts(): all erasures count

// Selects the erasures of the operations that made this version.
std::string select_erased(const std::string& counting) {
  return fmt::format(
      "SELECT e.domain, e.actor, e.time FROM version_makers m JOIN erased_makers x ON x.operation = m.operation"
      " JOIN erasures e ON e.operation = x.erasure WHERE m.digest = ?1 AND {} ORDER BY e.operation LIMIT 1",
      counting);
}

// Selects operations that made this version and are not erased.
std::string select_kept(const std::string& counting) {
  return fmt::format(
      "SELECT 1 FROM version_makers m WHERE m.digest = ?1 AND NOT EXISTS (SELECT 1 FROM erased_makers x"
      " JOIN erasures e ON e.operation = x.erasure WHERE x.operation = m.operation AND {})",
      counting);
}

std::optional<Erasure> erasure_among(Repository& repository, const Digest& manifest, const std::string& counting) {
  store::Statement select = repository.db().prepare(select_erased(counting));
  if (!select.bind(manifest).step()) return std::nullopt;
  if (repository.db().prepare(select_kept(counting)).bind(manifest).step()) return std::nullopt;
  return Erasure{select.text(0), select.text(1), select.int64(2)};
}

bool has_erasures(Repository& repository) {
  return repository.db().prepare("SELECT 1 FROM erasures LIMIT 1").step();
}

bool names_domain(const store::KeyFile& file, const std::string& name) {
  return std::ranges::any_of(file.keys, [&](const store::DataKey& key) { return key.domain == name; });
}

std::vector<std::uint32_t> keys_of(const store::KeyFile& file, const std::string& domain) {
  std::vector<std::uint32_t> ids;
  for (const store::DataKey& key : file.keys) {
    if (key.domain == domain && !key.erased()) ids.push_back(key.id);
  }
  return ids;
}

// Everything reachable from the first node: everything that was made from it.
std::set<Digest> descendants(const Lineage& lineage) {
  std::set<int> reached = {0};
  for (std::vector<int> todo = {0}; !todo.empty();) {
    const int node = todo.back();
    todo.pop_back();
    for (const auto& [from, to] : lineage.edges) {
      if (from == node && reached.insert(to).second) todo.push_back(to);
    }
  }
  std::set<Digest> digests;
  for (const int node : reached) digests.insert(lineage.nodes[static_cast<std::size_t>(node)].digest);
  return digests;
}

// Everything made from `erased`, as far as lineage knows, except `erased` themselves.
std::vector<Version> made_from(Repository& repository, const std::vector<Version>& erased) {
  std::set<Digest> own, found;
  for (const Version& version : erased) {
    own.insert(version.digest);
    found.merge(descendants(lineage(repository, version)));
  }
  std::vector<Version> made;
  for (Version& version : versions(repository)) {
    if (found.contains(version.digest) && !own.contains(version.digest)) made.push_back(std::move(version));
  }
  return made;
}

// The domain that `what` names.
std::string domain_to_erase(Repository& repository, const store::KeyFile& file, const std::string& what) {
  const std::vector<std::string> artifacts = artifact_names(repository);
  if (std::ranges::find(artifacts, what) == artifacts.end()) {
    if (names_domain(file, what)) return what;
    throw Error(ErrorKind::kNotFound, fmt::format("'{}' is neither an artifact nor a domain", what),
                "`mlx key list` lists the domains and what is in them");
  }
  const std::string domain = domain_of(repository, what);
  const std::vector<std::string> together = artifacts_in(repository, domain);
  if (together.size() == 1) return domain;
  const auto other = std::ranges::find_if(together, [&](const std::string& name) { return name != what; });
  throw Error(
      ErrorKind::kRefused,
      fmt::format("{} shares the domain '{}', and its key, with {} others, for example {}", what, domain,
                  together.size() - 1, *other),
      fmt::format("`mlx erase {}` erases them all; `mlx key assign` gives an artifact a domain before its first add",
                  shell_quoted(domain)));
}

void refuse_erased_versions(Repository& repository) {
  std::unordered_map<Digest, Error, DigestHash> refused;
  visit_versions(repository, [&](const Version& version) {
    if (refused.contains(version.digest)) return;
    const std::optional<Erasure> erasure = erasure_of(repository, version.digest);
    if (!erasure) return;
    refused.emplace(version.digest, Error(ErrorKind::kRefused,
                                          fmt::format("{} was erased on {} by {}, with the domain '{}'", version.name(),
                                                      iso_time(erasure->time), erasure->actor, erasure->domain),
                                          "its content is gone for good; `mlx log` still names it"));
  });
  repository.store().refuse(std::move(refused));
}

// The content in the domain that is not erased: versions, and added content without a version.
std::vector<Digest> staying_in(Repository& repository, const std::string& domain) {
  std::vector<Digest> manifests;
  for (const std::string& artifact : artifacts_in(repository, domain)) {
    for (const Version& version : versions(repository, artifact)) manifests.push_back(version.digest);
  }
  for (const Pointer& pointer : readable_pointers(repository)) {
    if (domain_of(repository, pointer.artifact) == domain) manifests.push_back(pointer.digest);
  }
  std::erase_if(manifests, [&](const Digest& manifest) { return erasure_of(repository, manifest).has_value(); });
  return manifests;
}

// Stores again content that needs these keys and stays, because somebody made it here without knowing of the erasure.
// False if nobody can unlock the keys now; they then stay until somebody does.
bool keep_what_stays(Repository& repository, const std::string& domain, const std::vector<std::uint32_t>& ids) {
  if (!repository.store().encrypted()) return true;
  const std::vector<Digest> staying = staying_in(repository, domain);
  if (staying.empty()) return true;
  try {
    const store::ObjectsOfVersions objects = store::readable_only_with(repository.store(), staying, ids);
    if (objects.empty()) return true;
    const store::DomainKey* current = repository.keys().ring()->find_current(domain);
    if (!current || std::ranges::find(ids, current->id) != ids.end()) renew_domain(repository, domain);
    store::reencrypt(repository.store(), objects, domain);
    return true;
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kRefused) throw;
    return false;
  }
}

void erase_keys(Repository& repository) {
  if (!repository.keys().exist()) return;
  repository.keys().mend();  // an old copy left by a killed process has the erased keys
  std::map<std::string, std::vector<std::uint32_t>> ids;
  for (const store::DataKey& key : repository.keys().file().keys) {
    if (!key.erased() && is_erased_key(repository, key.id, key.domain)) ids[key.domain].push_back(key.id);
  }
  for (const auto& [domain, keys] : ids) {
    if (keep_what_stays(repository, domain, keys)) repository.keys().erase(keys);
  }
}

}  // namespace

std::string domain_of(Repository& repository, const std::string& artifact) {
  store::Statement select = repository.db().prepare("SELECT domain FROM artifact_domains WHERE artifact = ?");
  return select.bind(artifact).step() ? select.text(0) : store::kMainDomain;
}

std::string domain_of_version(Repository& repository, const Digest& manifest) {
  store::Statement select = repository.db().prepare(
      "SELECT coalesce(d.domain, 'main') FROM versions v LEFT JOIN artifact_domains d ON d.artifact = v.artifact"
      " WHERE v.digest = ? ORDER BY v.seq LIMIT 1");
  return select.bind(manifest).step() ? select.text(0) : store::kMainDomain;
}

std::vector<std::string> artifacts_in(Repository& repository, const std::string& domain) {
  std::set<std::string> names;
  for (const std::string& artifact : artifact_names(repository)) {
    if (domain_of(repository, artifact) == domain) names.insert(artifact);
  }
  store::Statement select = repository.db().prepare("SELECT artifact FROM artifact_domains WHERE domain = ?");
  for (select.bind(domain); select.step();) names.insert(select.text(0));
  return {names.begin(), names.end()};
}

bool assign_domain(Repository& repository, const std::string& artifact, const std::string& domain) {
  const std::vector<std::string> known = store::domains(repository.keys().file());
  if (domain == store::kHistoryDomain)
    fail(ErrorKind::kRefused, "'{}' is the domain of operations: no artifact can be in it", domain);
  if (std::ranges::find(known, domain) == known.end()) {
    const std::string meant = did_you_mean(domain, known);
    throw Error(ErrorKind::kNotFound, fmt::format("there is no domain '{}'", domain),
                meant.empty() ? fmt::format("`mlx key domain add {}` makes it", shell_quoted(domain))
                              : fmt::format("did you mean '{}'?", meant));
  }
  const std::string before = domain_of(repository, artifact);
  if (before == domain) return false;
  if (!versions(repository, artifact).empty() || read_pointer(repository, artifact)) {
    throw Error(ErrorKind::kConflict,
                fmt::format("{} has content under the key of the domain '{}' already", artifact, before),
                "assign a domain before the first `mlx add`; a copy under another name can go into another domain");
  }
  repository.record("domain.assign", {{"artifact", artifact}, {"domain", domain}});
  return true;
}

std::optional<Erasure> erasure_of(Repository& repository, const Digest& manifest) {
  if (!has_erasures(repository)) return std::nullopt;
  return erasure_among(repository, manifest, counts(repository));
}

std::optional<Erasure> erasure_of_absent(Repository& repository, const Digest& manifest) {
  if (!has_erasures(repository)) return std::nullopt;
  const bool here = repository.store().has(store::ObjectKind::kManifest, manifest);
  return erasure_among(repository, manifest, here ? counts(repository) : kAll);
}

bool is_erased_key(Repository& repository, std::uint32_t id, const std::string& domain) {
  return repository.db()
      .prepare(fmt::format("SELECT 1 FROM erased_keys k JOIN erasures e ON e.operation = k.erasure"
                           " WHERE k.key = ?1 AND e.domain = ?2 AND {}",
                           counts(repository)))
      .bind(std::uint64_t{id}, domain)
      .step();
}

void store_under_domain_of(Repository& repository, const std::string& artifact) {
  const std::string domain = domain_of(repository, artifact);
  if (repository.store().encrypted() && has_erasures(repository)) {
    const store::KeyFile file = repository.keys().file();
    if (names_domain(file, domain) && keys_of(file, domain).empty()) renew_domain(repository, domain);
  }
  repository.store().use_domain(domain);
}

void renew_domain(Repository& repository, const std::string& domain) {
  repository.keys().change([&](store::UnlockedKeys& keys) { store::rotate_domain(keys, domain, unix_micros()); });
}

void renew_used_domains(Repository& repository) {
  if (!repository.keys().exist()) return;
  const std::vector<std::string> known = store::domains(repository.keys().file());
  std::set<std::string> used;
  for (const std::string& artifact : artifact_names(repository)) used.insert(domain_of(repository, artifact));
  for (const Pointer& pointer : readable_pointers(repository)) used.insert(domain_of(repository, pointer.artifact));
  for (const std::string& domain : used) {
    const bool has_key = std::ranges::find(known, domain) != known.end();
    if (!has_key && !staying_in(repository, domain).empty()) renew_domain(repository, domain);
  }
}

ErasePlan plan_erasure(Repository& repository, const std::string& what) {
  if (!repository.keys().exist()) {
    throw Error(ErrorKind::kRefused, "nothing is encrypted here: there is no key to shred",
                "`mlx init --encrypt` and `mlx remote add --encrypt` make content erasable");
  }
  const store::KeyFile file = repository.keys().file();
  ErasePlan plan;
  plan.domain = domain_to_erase(repository, file, what);
  if (plan.domain == store::kHistoryDomain) {
    throw Error(ErrorKind::kRefused, "the history's key cannot be erased: no clone could read any operation any more",
                "erase a domain of artifacts");
  }
  for (const std::string& artifact : artifacts_in(repository, plan.domain)) {
    for (Version& version : versions(repository, artifact)) {
      if (!erasure_of(repository, version.digest)) plan.versions.push_back(std::move(version));
    }
  }
  plan.made = made_from(repository, plan.versions);
  plan.keys = !keys_of(file, plan.domain).empty();
  return plan;
}

void erase(Repository& repository, const ErasePlan& plan) {
  Json keys = Json::array(), erased = Json::array();
  for (const std::uint32_t id : keys_of(repository.keys().file(), plan.domain)) keys.push_back(id);
  for (const Version& version : plan.versions) erased.push_back(version.digest.text());
  // Record first: if this is interrupted, the next opening of the repository shreds the key.
  repository.record("key.erase", {{"domain", plan.domain}, {"keys", keys}, {"versions", erased}});
  destroy_erased_keys(repository);
}

void destroy_erased_keys(Repository& repository) {
  if (!has_erasures(repository)) return;
  refuse_erased_versions(repository);
  erase_keys(repository);
}

}  // namespace mlx::registry
