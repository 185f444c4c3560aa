// Typed access to an operation's body for the apply functions.
#include "registry/operations/apply.h"

#include "base/error.h"
#include "base/json.h"

namespace mlx::registry {

std::string Application::what() const {
  return fmt::format("operation {} ({})", operation.id.brief(), operation.kind);
}

std::string Application::string(const char* key) const {
  return json_string(body, key, what());
}

std::string Application::string_or_empty(const char* key) const {
  return body.contains(key) ? string(key) : std::string();
}

std::int64_t Application::integer(const char* key, std::int64_t least) const {
  const std::int64_t value = json_int(body, key, what());
  if (value < least) corrupt(fmt::format("'{}' is {}, less than {}", key, value, least));
  return value;
}

bool Application::boolean(const char* key) const {
  return json_bool(body, key, what());
}

Digest Application::digest(const char* key) const {
  return Digest::parse(string(key));
}

std::optional<Digest> Application::digest_or_null(const char* key) const {
  const auto found = body.find(key);
  if (found != body.end() && found->is_null()) return std::nullopt;
  return digest(key);
}

std::string Application::json(const char* key) const {
  const auto found = body.find(key);
  if (found == body.end()) corrupt(fmt::format("the key '{}' is missing", key));
  return found->is_null() ? std::string() : canonical(*found);
}

void Application::corrupt(const std::string& why) const {
  fail(ErrorKind::kCorrupt, "{}: {}", what(), why);
}

bool Application::follows(std::int64_t place) const {
  return ancestry.precedes(place, seq);
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

Made maker_at(store::Database& db, std::int64_t place) {
  store::Statement select = db.prepare("SELECT actor, signer FROM operations WHERE seq = ?");
  if (!select.bind(place).step())
    throw Error(ErrorKind::kCorrupt, fmt::format("meta.db: operations: row {} is missing", place),
                "run `mlx fsck --rebuild`");
  return {select.null(1) ? select.text(0) : select.digest(1).hex(), select.text(0)};
}

}  // namespace mlx::registry
