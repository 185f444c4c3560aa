// A person's name as a blob of its own: an actor.describe names the SHA-256 of a small blob that holds the name beside
// random salt, so that the name is gone when the blob is. Used by Repository, which records it with what its owner
// records, and by record/people.h.
#pragma once

#include <optional>
#include <string>

#include "base/json_fwd.h"
#include "registry/settings/settings.h"
#include "store/pack/store.h"
#include "store/sqlite.h"

namespace mlx::registry {

struct Person {
  std::string name, email, host;  // host: the machine of the clone
  bool operator==(const Person&) const = default;
};

// nullopt where the blob is not here, not whole, or no name: whoever made it stays without one.
std::optional<Person> read_person(const store::Store& store, const Digest& blob);
// The name that the actor goes by here.
std::optional<Person> name_of(store::Database& db, const store::Store& store, const std::string& actor);
std::optional<Person> person_of_settings(const SettingSources& sources);  // nullopt without user.name
// Stores the name as a blob of the history; returns the body of the actor.describe that gives it.
Json store_name(store::Store& store, const Person& person);
// The same for what the settings say of the actor, where it is news; nullopt where there is nothing to say, or where
// nobody can write it down because the repository's keys are locked.
std::optional<Json> introduction(store::Database& db, store::Store& store, const SettingSources& sources,
                                 const std::string& actor);

}  // namespace mlx::registry
