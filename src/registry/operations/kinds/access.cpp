// API keys of servers: what each may do, and which were revoked. Only digests of keys are recorded.
#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "registry/operations/application.h"
#include "registry/operations/body.h"
#include "registry/operations/names.h"
#include "store/crypto/key_file.h"

namespace mlx::registry {
namespace {

// The list of models' names, as canonical JSON.
std::string models_of_key(const Application& a) {
  const std::string text = a.json("models");
  const Json models = text.empty() ? Json() : parse_json(text, a.what());
  if (!models.is_array()) a.corrupt("'models' is no list");
  for (const Json& model : models)
    if (!model.is_string() || !artifact_name_problem(model.get<std::string>()).empty())
      a.corrupt("'models' holds what is no name of an artifact");
  return text;
}

void apply_access_add(const Application& a) {
  const std::string name = a.string("name");
  if (const std::string problem = store::key_name_problem(name); !problem.empty()) a.corrupt("'name': " + problem);
  a.db.prepare(
          "INSERT OR IGNORE INTO api_keys (digest, seq, name, infer, metrics, models, expires, per_minute, per_day,"
          " actor, time) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
      .bind(a.digest("key"), a.seq, name, std::int64_t{a.boolean("infer")}, std::int64_t{a.boolean("metrics")},
            models_of_key(a), a.integer("expires", 0), a.integer("per_minute", 0), a.integer("per_day", 0),
            a.operation.actor, a.operation.time)
      .run();
}

// Holds whatever comes later, also where the clones that added and revoked it knew nothing of each other.
void apply_access_revoke(const Application& a) {
  a.db.prepare("INSERT OR IGNORE INTO revoked_api_keys (digest, actor, time) VALUES (?, ?, ?)")
      .bind(a.digest("key"), a.operation.actor, a.operation.time)
      .run();
}

std::string access_add_text(const Body& body) {
  return fmt::format("added the API key '{}', {}", body.text("name"), body.brief("key"));
}

std::string access_revoke_text(const Body& body) {
  return fmt::format("revoked the API key '{}', {}", body.text("name"), body.brief("key"));
}

}  // namespace

extern const Kind kAccessAdd = {
    "access.add",
    apply_access_add,
    access_add_text,
    names({{Role::kOther, "key"}}),
    ContentDomain::kHistory,
    {.never = "the key was given out; `mlx key api revoke` ends it"},
    takes<Right::kKeys>,
};

extern const Kind kAccessRevoke = {
    "access.revoke",         apply_access_revoke,
    access_revoke_text,      names({{Role::kOther, "key"}}),
    ContentDomain::kHistory, {.never = "a key that was revoked stays so; `mlx key api add` makes another one"},
    takes<Right::kKeys>,
};

}  // namespace mlx::registry
