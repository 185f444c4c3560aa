// Names as blobs of their own, and the two operations about them.
#include "registry/people.h"

#include "base/error.h"
#include "base/json.h"
#include "registry/apply.h"
#include "registry/random_id.h"

namespace mlx::registry {
namespace {

constexpr std::size_t kLargest = std::size_t{64} << 10;
constexpr const char* kForgotten =
    "SELECT o.seq, f.operation FROM forgotten f JOIN operations o ON o.id = f.operation WHERE f.actor = ?";

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

// A name that its actor gave without knowing that it was to be forgotten is forgotten too.
void apply_actor_describe(const Application& a) {
  store::Statement forgotten = a.db.prepare(kForgotten);
  for (forgotten.bind(a.operation.actor); forgotten.step();) {
    if (!a.follows(forgotten.int64(0))) return;
  }
  a.db.prepare("INSERT INTO people (seq, actor, blob) VALUES (?, ?, ?)")
      .bind(a.seq, a.operation.actor, a.digest("blob"))
      .run();
}

// Whoever knows the last one knows those before it.
void apply_actor_forget(const Application& a) {
  const std::string actor = a.string("actor");
  store::Statement before = a.db.prepare(kForgotten);
  std::vector<Digest> known;
  for (before.bind(actor); before.step();) {
    if (a.follows(before.int64(0))) known.push_back(before.digest(1));
  }
  before.reset();
  for (const Digest& id : known) a.db.prepare("DELETE FROM forgotten WHERE operation = ?").bind(id).run();
  a.db.prepare("INSERT INTO forgotten (operation, actor) VALUES (?, ?)").bind(a.operation.id, actor).run();
  a.db.prepare("DELETE FROM people WHERE actor = ?").bind(actor).run();
}

bool describe_actor(Repository& repository, const Person& person) {
  for (const std::string* text : {&person.name, &person.email, &person.host}) {
    if (!is_utf8(*text)) fail(ErrorKind::kUsage, "user.name and user.email: expected valid UTF-8");
  }
  (void)repository.signer();  // who is described
  const Names names(repository);
  if (const Person* own = names.of(repository.actor()); own && *own == person) return false;
  const auto batch = repository.store().begin();
  const Digest blob = batch->add_blob(encode_person(person));
  batch->commit();
  Json body;
  body["blob"] = blob.text();
  repository.record("actor.describe", body);
  return true;
}

Names::Names(Repository& repository) {
  store::Statement select = repository.db().prepare(
      "SELECT p.actor, o.id, p.blob FROM people p JOIN operations o ON o.seq = p.seq ORDER BY p.seq");
  while (select.step()) {
    auto person = read_person(repository.store(), select.digest(2));
    if (person) given_[select.text(0)].push_back({select.digest(1), std::move(*person)});
  }
  if (given_.empty()) return;
  store::Statement places = repository.db().prepare("SELECT id, seq FROM operations");
  while (places.step()) place_.emplace(places.digest(0), places.int64(1));
}

const Person* Names::of(const std::string& actor) const {
  const auto found = given_.find(actor);
  return found == given_.end() ? nullptr : &found->second.back().second;
}

// Operations of one actor stand in one line, so that places in the order tell which came first.
const Person* Names::of(const Operation& operation) const {
  const auto found = given_.find(operation.actor);
  if (found == given_.end()) return nullptr;
  const Person* name = &found->second.front().second;
  for (const auto& [given, person] : found->second) {
    if (place_.at(given) > place_.at(operation.id)) break;
    name = &person;
  }
  return name;
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
