// Reading the parts of a tokenizer.json: keys that may be absent or null. Used by the readers of subword/.
#pragma once

#include <optional>
#include <string>

#include "base/error.h"
#include "base/json.h"

namespace mlx::data::subword {

inline bool has_key(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && !found->is_null();
}
// `otherwise` if the key is absent or null.
inline bool flag(const Json& json, const char* key, bool otherwise, const std::string& what) {
  return has_key(json, key) ? json_bool(json, key, what) : otherwise;
}
inline std::string text_or(const Json& json, const char* key, const std::string& otherwise, const std::string& what) {
  return has_key(json, key) ? json_string(json, key, what) : otherwise;
}
inline std::int64_t number_or(const Json& json, const char* key, std::int64_t otherwise, const std::string& what) {
  return has_key(json, key) ? json_int(json, key, what) : otherwise;
}

[[noreturn]] inline void refuse_kind(const char* part, const std::string& type, const std::string& what) {
  throw Error(ErrorKind::kUsage,
              fmt::format("{}: a {} of the kind '{}' is not supported", what, part, type.substr(0, 60)),
              "`mlx help tokenizer` lists what is");
}

}  // namespace mlx::data::subword
