// See application.h.
#include "registry/operations/application.h"

#include "base/error.h"
#include "base/json.h"

namespace mlx::registry {

std::string Application::what() const {
  return fmt::format("operation {} ({})", operation.id.brief(), operation.kind);
}

std::string Application::string(const char* key) const {
  return json_string(body_, key, what());
}

std::string Application::string_or_empty(const char* key) const {
  return body_.contains(key) ? string(key) : std::string();
}

std::int64_t Application::integer(const char* key, std::int64_t least) const {
  const std::int64_t value = json_int(body_, key, what());
  if (value < least) corrupt(fmt::format("'{}' is {}, less than {}", key, value, least));
  return value;
}

bool Application::boolean(const char* key) const {
  return json_bool(body_, key, what());
}

Digest Application::digest(std::string_view at) const {
  CHECK(kind_.content.declares(at));
  return Digest::parse(string(std::string(at).c_str()));
}

std::optional<Digest> Application::digest_or_null(std::string_view at) const {
  const auto found = body_.find(at);
  if (found != body_.end() && found->is_null()) return std::nullopt;
  return digest(at);
}

std::vector<Digest> Application::digests(std::string_view at) const {
  CHECK(kind_.content.declares(at));
  const std::string key(at.substr(0, at.find("[]")));
  std::vector<Digest> list;
  for (const Json& item : json_array(body_, key.c_str(), what())) {
    if (!item.is_string()) corrupt(fmt::format("'{}': expected digests", key));
    list.push_back(Digest::parse(item.get_ref<const std::string&>()));
  }
  return list;
}

std::vector<std::pair<std::string, Digest>> Application::roles_and_digests(std::string_view at) const {
  CHECK(kind_.content.declares(at));
  const std::size_t each = at.find("[].");
  const std::string list(at.substr(0, each)), key(at.substr(each + 3));
  std::vector<std::pair<std::string, Digest>> found;
  for (const Json& item : json_array(body_, list.c_str(), what()))
    found.emplace_back(json_string(item, "role", what()), Digest::parse(json_string(item, key.c_str(), what())));
  return found;
}

std::vector<std::uint32_t> Application::key_ids(const char* key) const {
  std::vector<std::uint32_t> ids;
  for (const Json& item : json_array(body_, key, what())) {
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() == 0 || item.get<std::uint64_t>() > 0xFFFFFFFF)
      corrupt(fmt::format("'{}': expected key ids", key));
    ids.push_back(item.get<std::uint32_t>());
  }
  return ids;
}

std::string Application::json(const char* key) const {
  const auto found = body_.find(key);
  if (found == body_.end()) corrupt(fmt::format("the key '{}' is missing", key));
  return found->is_null() ? std::string() : canonical(*found);
}

void Application::corrupt(const std::string& why) const {
  fail(ErrorKind::kCorrupt, "{}: {}", what(), why);
}

bool Application::follows(std::int64_t place) const {
  return ancestry_.precedes(place, seq);
}

bool Application::follows(const Digest& earlier) const {
  store::Statement select = db.prepare("SELECT seq FROM operations WHERE id = ?");
  return select.bind(earlier).step() && follows(select.int64(0));
}

std::string Application::maker() const {
  return operation.is_signed() ? operation.signer.hex() : operation.actor;
}

void Application::ignore(const std::string& what, const std::string& whose) const {
  db.prepare("INSERT OR IGNORE INTO remarks (operation, ignored, what, whose) VALUES (?, 1, ?, ?)")
      .bind(operation.id, what, whose)
      .run();
}

void Application::changes(const std::string& what, const std::string& whose) const {
  db.prepare("INSERT OR IGNORE INTO remarks (operation, ignored, what, whose) VALUES (?, 0, ?, ?)")
      .bind(operation.id, what, whose)
      .run();
}

void Application::note_change(std::int64_t place, const std::string& what) const {
  const Made made = maker_at(db, place);
  if (made.maker != maker()) changes(what, made.actor);
}

void Application::require_version(const std::string& artifact, const Digest& digest) const {
  if (!db.prepare("SELECT 1 FROM versions WHERE artifact = ? AND digest = ?").bind(artifact, digest).step())
    corrupt("names a version of " + artifact + " that no operation before it made: " + digest.brief());
}

Made maker_at(store::Database& db, std::int64_t place) {
  store::Statement select = db.prepare("SELECT actor, signer FROM operations WHERE seq = ?");
  if (!select.bind(place).step())
    throw Error(ErrorKind::kCorrupt, fmt::format("meta.db: operations: row {} is missing", place),
                "run `mlx fsck --rebuild`");
  return {select.null(1) ? select.text(0) : select.digest(1).hex(), select.text(0)};
}

}  // namespace mlx::registry
