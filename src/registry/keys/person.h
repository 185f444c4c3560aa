// A person's name as a separate blob. An actor.describe names the SHA-256 of a small blob of the name and random salt;
// deleting the blob deletes the name. Used by Repository, which records the name with its owner's first operation, and
// by record/people.h.
#pragma once

#include <optional>
#include <string>

#include "base/json_fwd.h"
#include "registry/settings/settings.h"
#include "store/pack/store.h"
#include "store/sqlite.h"

namespace mlx::registry {

struct Person {
  std::string name, email, host;  // host: the machine that the clone is on
  bool operator==(const Person&) const = default;
};

// nullopt if the blob is missing, damaged or not a name; the actor is then shown without one.
std::optional<Person> read_person(const store::Store& store, const Digest& blob);
// The actor's name in this clone.
std::optional<Person> name_of(store::Database& db, const store::Store& store, const std::string& actor);
std::optional<Person> person_of_settings(const SettingSources& sources);  // nullopt without user.name
// Stores the name as a blob of the history domain. Returns the body of the actor.describe that names it.
Json store_name(store::Store& store, const Person& person);
// The same for the name in the settings, if it is not recorded yet. nullopt if there is nothing to record, or if the
// repository's keys are locked, so that it cannot be encrypted.
std::optional<Json> introduction(store::Database& db, store::Store& store, const SettingSources& sources,
                                 const std::string& actor);

}  // namespace mlx::registry
