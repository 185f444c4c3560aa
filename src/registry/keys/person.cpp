// See person.h.
#include "registry/keys/person.h"

#include <unistd.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "registry/operations/operation.h"
#include "store/crypto/keys.h"

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

}  // namespace

std::optional<Person> read_person(const store::Store& store, const Digest& blob) {
  if (!store.has_blob(blob)) return std::nullopt;
  try {
    if (store.open_blob(blob).size() > kLargest) return std::nullopt;
    return decode_person(store.read_blob(blob), "the name " + blob.brief());
  } catch (const Error& error) {
    // kRefused: the keys are locked.
    if (error.kind != ErrorKind::kCorrupt && error.kind != ErrorKind::kNotFound && error.kind != ErrorKind::kRefused)
      throw;
    return std::nullopt;
  }
}

std::optional<Person> name_of(store::Database& db, const store::Store& store, const std::string& actor) {
  store::Statement select = db.prepare("SELECT blob FROM people WHERE actor = ? ORDER BY seq DESC LIMIT 1");
  if (!select.bind(actor).step()) return std::nullopt;
  return read_person(store, select.digest(0));
}

std::optional<Person> person_of_settings(const SettingSources& sources) {
  const Settings settings(sources);
  if (settings.text("user.name").empty()) return std::nullopt;
  char host[256] = "";
  if (::gethostname(host, sizeof host - 1) != 0) host[0] = 0;
  return Person{settings.text("user.name"), settings.text("user.email"), host};
}

// Stored in the history domain, whatever domain the store writes to otherwise.
Json store_name(store::Store& store, const Person& person) {
  for (const std::string* text : {&person.name, &person.email, &person.host}) {
    if (!is_utf8(*text)) fail(ErrorKind::kUsage, "user.name and user.email: expected valid UTF-8");
  }
  const std::string domain = store.domain();
  store.use_domain(store::kHistoryDomain);
  const auto batch = store.begin();
  const Digest blob = batch->add_blob(encode_person(person));
  batch->commit();
  store.use_domain(domain);
  return {{"blob", blob.text()}};
}

std::optional<Json> introduction(store::Database& db, store::Store& store, const SettingSources& sources,
                                 const std::string& actor) try {
  const std::optional<Person> person = person_of_settings(sources);
  if (!person || name_of(db, store, actor) == person) return std::nullopt;
  return store_name(store, *person);
} catch (const Error& error) {
  if (error.kind != ErrorKind::kRefused) throw;
  log("your name is not recorded with this: {}", error.message);
  return std::nullopt;
}

}  // namespace mlx::registry
