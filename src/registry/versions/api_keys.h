// The API keys of servers, as operations have recorded them (operations/kinds/access.cpp). Used by `mlx key api` and
// `mlx serve`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/hash.h"
#include "registry/repository.h"

namespace mlx::registry {

struct ApiKey {
  std::string name;
  Digest digest;  // SHA-256 of the key's text
  bool infer = true, metrics = false;
  std::vector<std::string> models{};         // that it may ask; empty: all
  std::int64_t expires = 0;                  // Unix microseconds; 0: never
  std::int64_t per_minute = 0, per_day = 0;  // requests; 0: any number
  std::string actor{};
  std::int64_t time = 0;
  bool revoked = false;
};

// All that were ever added, in the order of operations.
std::vector<ApiKey> api_keys(Repository& repository);
// Throws what adding it would throw: kConflict if one of this name is in force, kUsage for a name or model that cannot
// be one, kRefused without the right to.
void check_new_api_key(Repository& repository, const ApiKey& key);
void add_api_key(Repository& repository, const ApiKey& key);
// Revokes those of this name; returns them, none if they are revoked already. kNotFound if there was never one.
std::vector<ApiKey> revoke_api_keys(Repository& repository, const std::string& name, bool dry_run);

}  // namespace mlx::registry
