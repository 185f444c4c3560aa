// The people behind the pseudonymous ids in operations. No operation holds a name: an actor.describe names the SHA-256
// of a small blob of the name and random salt. Deleting the blob deletes the name, and the operation reveals nothing. A
// name is set by its owner (setting user.name) with what they record, and erased with an actor.forget. Several people
// who work in one clone are several actors with a name each.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "registry/keys/person.h"
#include "registry/repository.h"

namespace mlx::registry {

// Names this clone's actor from now on. False if that is the name already.
bool describe_actor(Repository& repository, const Person& person);
// The same with the signer's settings; does nothing without user.name.
bool introduce(Repository& repository);
// The names known here; names whose blob is not in this store are missing.
class Names {
 public:
  explicit Names(Repository& repository);
  const Person* of(const std::string& actor) const;  // the latest name; nullptr without a name
  // The name in force when the actor made this operation, else the first one after it.
  const Person* of(const std::string& actor, const Digest& operation) const;
  const Person* of(const Operation& operation) const { return of(operation.actor, operation.id); }

 private:
  Repository& repository_;
  std::map<std::string, std::vector<std::pair<std::int64_t, Person>>> given_;  // with the place of the operation
};
void require_may_forget(Repository& repository, const std::string& actor);  // erasing one's own name needs no right
bool has_name(Repository& repository, const std::string& actor);            // true even if its blob is not here
// Every clone that learns of this stops keeping, sending and fetching the name. False if there is none.
bool forget_actor(Repository& repository, const std::string& actor);

}  // namespace mlx::registry
