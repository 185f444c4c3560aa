// The key domains of artifacts (DESIGN 5): which domain an artifact belongs to, and what happened to erased ones.
//
// Both are operations: an assignment holds in every clone, and an erasure removes the domain's keys from every clone
// that receives it. The keys themselves are in keys.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "registry/repository.h"
#include "registry/versions/artifacts.h"

namespace mlx::registry {

std::string domain_of(Repository& repository, const std::string& artifact);  // "main" if none was assigned
// The domain of the versions with this manifest; "main" if there are none (checkpoints, uncommitted content).
std::string domain_of_version(Repository& repository, const Digest& manifest);
std::vector<std::string> artifacts_in(Repository& repository, const std::string& domain);  // sorted
// Throws kConflict if the artifact has content under another domain, which would have to be stored again. False if it
// belongs to the domain already.
bool assign_domain(Repository& repository, const std::string& artifact, const std::string& domain);

struct Erasure {
  std::string domain, actor;
  std::int64_t time = 0;  // unix microseconds
};
// The erasure of a version: set if every operation that made it was erased, by an erasure that comes after it in the
// graph and names it. An erasure of the domain `main` counts only if this clone's actor made it.
std::optional<Erasure> erasure_of(Repository& repository, const Digest& manifest);
// The same for absent content; then an erasure of `main` by somebody else counts as well, because nobody needs to have
// it.
std::optional<Erasure> erasure_of_absent(Repository& repository, const Digest& manifest);

// True if an erasure that counts here destroyed this key of this domain.
bool is_erased_key(Repository& repository, std::uint32_t id, const std::string& domain);
// Stores under the key of the artifact's domain from now on. An erased domain gets a new key.
void store_under_domain_of(Repository& repository, const std::string& artifact);
// Makes a new key, and encrypts the domain with it from now on. Throws kRefused if nobody can unlock the keys.
void renew_domain(Repository& repository, const std::string& domain);
// The same for each erased domain that is in use again.
void renew_used_domains(Repository& repository);

struct ErasePlan {
  std::string domain;
  std::vector<Version> versions;  // unreadable afterwards
  std::vector<Version> made;      // models and datasets outside of the domain that were made from these
  bool keys = false;              // the domain still has a key
};
// `what` is a domain, or an artifact that is alone in its domain (kRefused if it is not). Throws kNotFound; kRefused if
// nothing is encrypted, or for the history domain.
ErasePlan plan_erasure(Repository& repository, const std::string& what);
void erase(Repository& repository, const ErasePlan& plan);

// Removes erased keys from this clone's key file, and makes the store refuse the erased versions. Cheap if nothing was
// erased; called whenever operations arrive.
void destroy_erased_keys(Repository& repository);

}  // namespace mlx::registry
