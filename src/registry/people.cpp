// Names as blobs of their own, and the two operations about them.
#include "registry/people.h"

#include "base/error.h"
#include "base/json.h"
#include "registry/apply.h"
#include "registry/random_id.h"

namespace mlx::registry {
namespace {

constexpr std::size_t kLargest = std::size_t{64} << 10;

Bytes encode_person(const Person& person) {
  const Json json = {
      {"email", person.email}, {"host", person.host}, {"name", person.name}, {"salt", random_id() + random_id()}};
  return to_bytes(canonical(json));
}

Person decode_person(ByteView bytes, const std::string& what) {
  const Json json = parse_json(as_text(bytes), what);
  if (!json.is_object()) fail(ErrorKind::kCorrupt, "{}: expected an object", what);
  return {json_string(json, "name", what), json_string(json, "email", what), json_string(json, "host", what)};
}

// nullopt where it is not here, not whole, or no name: whoever made it stays without one.
std::optional<Person> read_person(const store::Store& store, const Digest& blob) {
  if (!store.has_blob(blob)) return std::nullopt;
  try {
    if (store.open_blob(blob).size() > kLargest) return std::nullopt;
    return decode_person(store.read_blob(blob), "the name " + blob.brief());
  } catch (const Error& error) {
    if (error.kind != ErrorKind::kCorrupt && error.kind != ErrorKind::kNotFound) throw;
    return std::nullopt;
  }
}

}  // namespace

void apply_actor_describe(const Application& a) {
  a.db.prepare("INSERT OR REPLACE INTO people (actor, blob) VALUES (?, ?)")
      .bind(a.operation.actor, a.digest("blob"))
      .run();
}

void apply_actor_forget(const Application& a) {
  a.db.prepare("DELETE FROM people WHERE actor = ?").bind(a.string("actor")).run();
}

bool describe_actor(Repository& repository, const Person& person) {
  for (const std::string* text : {&person.name, &person.email, &person.host}) {
    if (!is_utf8(*text)) fail(ErrorKind::kUsage, "user.name and user.email: expected valid UTF-8");
  }
  const auto known = people(repository);
  const auto own = known.find(repository.actor());
  if (own != known.end() && own->second == person) return false;
  const auto batch = repository.store().begin();
  const Digest blob = batch->add_blob(encode_person(person));
  batch->commit();
  Json body;
  body["blob"] = blob.text();
  repository.record("actor.describe", body);
  return true;
}

std::map<std::string, Person> people(Repository& repository) {
  std::map<std::string, Person> found;
  store::Statement select = repository.db().prepare("SELECT actor, blob FROM people");
  while (select.step()) {
    const std::string actor = select.text(0);
    if (auto person = read_person(repository.store(), select.digest(1))) found[actor] = std::move(*person);
  }
  return found;
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
