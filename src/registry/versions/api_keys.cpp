// Records and lists API keys; operations/kinds/access.cpp writes their tables.
#include "registry/versions/api_keys.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/toml.h"
#include "registry/operations/names.h"
#include "registry/record/judge.h"
#include "store/crypto/key_file.h"

namespace mlx::registry {

std::vector<ApiKey> api_keys(Repository& repository) {
  store::Statement select = repository.db().prepare(
      "SELECT k.name, k.digest, k.infer, k.metrics, k.models, k.expires, k.per_minute, k.per_day, k.actor, k.time,"
      " r.digest IS NOT NULL FROM api_keys k LEFT JOIN revoked_api_keys r ON r.digest = k.digest ORDER BY k.seq");
  std::vector<ApiKey> out;
  while (select.step()) {
    ApiKey key{.name = select.text(0), .digest = select.digest(1)};
    key.infer = select.int64(2) != 0;
    key.metrics = select.int64(3) != 0;
    for (const Json& model : parse_json(select.text(4), "an API key")) key.models.push_back(model.get<std::string>());
    key.expires = select.int64(5);
    key.per_minute = select.int64(6);
    key.per_day = select.int64(7);
    key.actor = select.text(8);
    key.time = select.int64(9);
    key.revoked = select.int64(10) != 0;
    out.push_back(std::move(key));
  }
  return out;
}

void add_api_key(Repository& repository, const ApiKey& key) {
  repository.record("access.add", {{"name", key.name},
                                   {"key", key.digest.text()},
                                   {"infer", key.infer},
                                   {"metrics", key.metrics},
                                   {"models", key.models},
                                   {"expires", key.expires},
                                   {"per_minute", key.per_minute},
                                   {"per_day", key.per_day}});
}

void check_new_api_key(Repository& repository, const ApiKey& key) {
  if (const std::string problem = store::key_name_problem(key.name); !problem.empty())
    fail(ErrorKind::kUsage, "'{}' cannot name an API key: {}", printable(key.name), problem);
  for (const std::string& model : key.models)
    if (const std::string problem = artifact_name_problem(model); !problem.empty())
      fail(ErrorKind::kUsage, "'{}' cannot name a model: {}", printable(model), problem);
  const std::vector<ApiKey> known = api_keys(repository);
  const auto same = [&](const ApiKey& other) { return other.name == key.name && !other.revoked; };
  if (std::ranges::any_of(known, same))
    throw Error(ErrorKind::kConflict, fmt::format("there is an API key '{}' already", key.name),
                "choose another name, or revoke that one first");
  require_may_record(repository, "access.add");
}

std::vector<ApiKey> revoke_api_keys(Repository& repository, const std::string& name, bool dry_run) {
  std::vector<ApiKey> found;
  std::vector<std::string> names;
  bool before = false;
  for (ApiKey& key : api_keys(repository)) {
    before = before || (key.name == name && key.revoked);
    if (key.revoked) continue;
    names.push_back(key.name);
    if (key.name == name) found.push_back(std::move(key));
  }
  if (found.empty() && !before) {
    const std::string meant = did_you_mean(name, names);
    throw Error(ErrorKind::kNotFound, fmt::format("there is no API key '{}'", printable(name)),
                meant.empty() ? "`mlx key api list` lists them" : fmt::format("did you mean '{}'?", meant));
  }
  if (!found.empty()) require_may_record(repository, "access.revoke");
  for (const ApiKey& key : found)
    if (!dry_run) repository.record("access.revoke", {{"name", key.name}, {"key", key.digest.text()}});
  return found;
}

}  // namespace mlx::registry
