// Reads patterns.

#include "data/subword/pattern.h"

#include "data/subword/json_keys.h"

namespace mlx::data::subword {

Pattern read_pattern(const Json& json, const std::string& what) {
  const auto found = json.find("pattern");
  if (found != json.end() && found->is_string()) return Pattern(found->get<std::string>());
  const Json& pattern = json_object(json, "pattern", what);
  if (has_key(pattern, "String")) return Pattern(json_string(pattern, "String", what));
  return Pattern(Regex(json_string(pattern, "Regex", what), what));
}

}  // namespace mlx::data::subword
