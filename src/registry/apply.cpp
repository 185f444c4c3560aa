// Typed access to an operation's body for the apply functions.
#include "registry/apply.h"

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

}  // namespace mlx::registry
