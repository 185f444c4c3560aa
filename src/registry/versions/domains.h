// Domains of artifacts (DESIGN 5): which one an artifact belongs to, and what became of those that were erased.
//
// Both are operations: an assignment holds in every clone, and an erasure takes the domain's keys out of every clone
// that receives it. The keys themselves are in keys.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "registry/repository.h"
#include "registry/versions/artifacts.h"

namespace mlx::registry {

std::string domain_of(Repository& repository, const std::string& artifact);  // "main" where none was assigned
// The domain of the versions that are `manifest`; "main" where there are none (checkpoints, what is not committed).
std::string domain_of_version(Repository& repository, const Digest& manifest);
std::vector<std::string> artifacts_in(Repository& repository, const std::string& domain);  // sorted
// kConflict where the artifact has content under another domain already: it would have to be stored again. False where
// it belongs there already.
bool assign_domain(Repository& repository, const std::string& artifact, const std::string& domain);

struct Erasure {
  std::string domain, actor;
  std::int64_t time = 0;  // unix microseconds
};
// Where every operation that made this version was erased: an erasure that stands behind it in the graph names it. One
// of the domain `main` counts where its actor is this clone's.
std::optional<Erasure> erasure_of(Repository& repository, const Digest& manifest);
// The same, and of what is not here also where somebody else erased `main`: nobody need have it any more.
std::optional<Erasure> erasure_of_absent(Repository& repository, const Digest& manifest);

// Whether an erasure that counts here took this key of this domain.
bool is_erased_key(Repository& repository, std::uint32_t id, const std::string& domain);
// What is stored from now on is the artifact's, under the key of its domain; one that was erased gets a new one.
void store_under_domain_of(Repository& repository, const std::string& artifact);
// A new key that the domain is written with from now on. kRefused where nobody can unlock the keys.
void renew_domain(Repository& repository, const std::string& domain);
// The same for each domain that was erased and is used again.
void renew_used_domains(Repository& repository);

struct ErasePlan {
  std::string domain;
  std::vector<Version> versions;  // that can not be read afterwards
  std::vector<Version> made;      // models and datasets outside of the domain that were made from these
  bool keys = false;              // whether the domain has a key still
};
// `what` is a domain, or an artifact that is alone in its domain (kRefused where others are in it). kNotFound, and
// kRefused where nothing is encrypted, or for the history.
ErasePlan plan_erasure(Repository& repository, const std::string& what);
void erase(Repository& repository, const ErasePlan& plan);

// Takes out of this clone's keys what operations have erased, and has the store refuse the versions. Cheap where there
// was no erasure; called whenever operations came.
void destroy_erased_keys(Repository& repository);

}  // namespace mlx::registry
