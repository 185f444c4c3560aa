// Names as blobs of their own, and the two operations about them.
#include "registry/keys/people.h"

#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "registry/keys/trust.h"
#include "registry/operations/apply.h"
#include "registry/operations/random_id.h"
#include "registry/settings.h"
#include "store/crypto/keys.h"

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
    // Refused: nobody has unlocked the keys.
    if (error.kind != ErrorKind::kCorrupt && error.kind != ErrorKind::kNotFound && error.kind != ErrorKind::kRefused)
      throw;
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

namespace {

// The name that this clone's actor goes by; read alone, since it is asked with whatever is recorded.
std::optional<Person> own_name(Repository& repository) {
  store::Statement select =
      repository.db().prepare("SELECT blob FROM people WHERE actor = ? ORDER BY seq DESC LIMIT 1");
  if (!select.bind(repository.actor()).step()) return std::nullopt;
  return read_person(repository.store(), select.digest(0));
}

std::optional<Person> person_of_settings(Repository& repository) {
  const Settings settings({repository.environment(), repository.root()});
  if (settings.text("user.name").empty()) return std::nullopt;
  char host[256] = "";
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = 0;
  return Person{settings.text("user.name"), settings.text("user.email"), host};
}

// The name as a blob of the history, whatever the store is about to hold.
Json stored_name(Repository& repository, const Person& person) {
  for (const std::string* text : {&person.name, &person.email, &person.host}) {
    if (!is_utf8(*text)) fail(ErrorKind::kUsage, "user.name and user.email: expected valid UTF-8");
  }
  store::Store& store = repository.store();
  const std::string domain = store.domain();
  store.use_domain(store::kHistoryDomain);
  const auto batch = store.begin();
  const Digest blob = batch->add_blob(encode_person(person));
  batch->commit();
  store.use_domain(domain);
  return {{"blob", blob.text()}};
}

}  // namespace

bool describe_actor(Repository& repository, const Person& person) {
  (void)repository.signer();  // who is described
  if (own_name(repository) == person) return false;
  repository.record("actor.describe", stored_name(repository, person));
  return true;
}

bool introduce(Repository& repository) {
  const std::optional<Person> person = person_of_settings(repository);
  return person && describe_actor(repository, *person);
}

std::optional<Json> introduction(Repository& repository) try {
  const std::optional<Person> person = person_of_settings(repository);
  if (!person || own_name(repository) == person) return std::nullopt;
  return stored_name(repository, *person);
} catch (const Error& error) {
  if (error.kind != ErrorKind::kRefused) throw;
  log("who records this stays without a name: {}", error.message);
  return std::nullopt;
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

// Operations of one actor stand in one line, so that places in the order tell which came first.
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
