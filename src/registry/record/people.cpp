// Names as separate blobs, and the two operations about them.
#include "registry/record/people.h"

#include "base/json.h"
#include "registry/record/judge.h"

namespace mlx::registry {

bool describe_actor(Repository& repository, const Person& person) {
  (void)repository.signer();  // makes sure that there is somebody to describe
  if (name_of(repository.db(), repository.store(), repository.actor()) == person) return false;
  repository.record("actor.describe", store_name(repository.store(), person));
  return true;
}

bool introduce(Repository& repository) {
  const std::optional<Person> person = person_of_settings({repository.environment(), repository.root()});
  return person && describe_actor(repository, *person);
}

Names::Names(Repository& repository) : repository_(repository) {
  store::Statement select = repository.db().prepare("SELECT actor, seq, blob FROM people ORDER BY seq");
  while (select.step()) {
    auto person = read_person(repository.store(), select.digest(2));
    if (person) given_[select.text(0)].emplace_back(select.int64(1), std::move(*person));
  }
}

const Person* Names::of(const std::string& actor) const {
  const auto found = given_.find(actor);
  return found == given_.end() ? nullptr : &found->second.back().second;
}

// The operations of one actor form a chain, so their places in the order tell which came first.
const Person* Names::of(const std::string& actor, const Digest& operation) const {
  const auto found = given_.find(actor);
  if (found == given_.end()) return nullptr;
  const Person* name = &found->second.front().second;
  if (found->second.size() == 1) return name;
  store::Statement place = repository_.db().prepare("SELECT seq FROM operations WHERE id = ?");
  if (!place.bind(operation).step()) return name;
  for (const auto& [given, person] : found->second) {
    if (given > place.int64(0)) break;
    name = &person;
  }
  return name;
}

void require_may_forget(Repository& repository, const std::string& actor) {
  Operation operation;
  operation.kind = "actor.forget";
  operation.actor = repository.actor();
  operation.body = canonical({{"actor", actor}});
  require_may_record(repository, operation);
}

bool has_name(Repository& repository, const std::string& actor) {
  return repository.db().prepare("SELECT 1 FROM people WHERE actor = ?").bind(actor).step();
}

bool forget_actor(Repository& repository, const std::string& actor) {
  return repository
      .record_with("actor.forget",
                   [&](Json& body) {
                     if (!has_name(repository, actor)) return false;
                     body["actor"] = actor;
                     return true;
                   })
      .has_value();
}

}  // namespace mlx::registry
