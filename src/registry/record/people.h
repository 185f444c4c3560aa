// Who sits behind the pseudonymous ids that operations carry. A name stands in no operation: an actor.describe names
// the SHA-256 of a small blob that holds it beside random salt, so that the name is gone when the blob is, and the
// operation tells nothing of it. Names are given by their owner (the setting user.name) with what they record, and
// erased with an actor.forget. Several people who work in one clone are several actors, each with their own name.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "registry/keys/person.h"
#include "registry/repository.h"

namespace mlx::registry {

// What this clone's actor is called from now on. False where it is already.
bool describe_actor(Repository& repository, const Person& person);
// The same by the settings of whoever signs; without user.name nothing is said.
bool introduce(Repository& repository);
// The names that are known here: those whose blob is not in this store are left out.
class Names {
 public:
  explicit Names(Repository& repository);
  const Person* of(const std::string& actor) const;  // the last one; nullptr without a name
  // The one in force when this operation of theirs was made, else the first after it.
  const Person* of(const std::string& actor, const Digest& operation) const;
  const Person* of(const Operation& operation) const { return of(operation.actor, operation.id); }

 private:
  Repository& repository_;
  std::map<std::string, std::vector<std::pair<std::int64_t, Person>>> given_;  // with the place of the operation
};
void require_may_forget(Repository& repository, const std::string& actor);  // one's own name takes no right to erase
bool has_name(Repository& repository, const std::string& actor);            // also where its blob is not here
// From now on no clone that knows of it keeps, sends or fetches the name. False where there is none.
bool forget_actor(Repository& repository, const std::string& actor);

}  // namespace mlx::registry
