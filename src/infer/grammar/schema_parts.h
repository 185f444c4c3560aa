// The keys of a JSON schema, checked, and what they say. Used by json_schema.cpp. All throw kUsage: "PLACE: why".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "infer/grammar/rules.h"

namespace mlx::infer::grammar {

// Whether a key only describes: title, examples and the like, and those that begin with x-.
bool is_annotation(std::string_view key);
// Refuses what is no object, and keys that are not supported.
void check_keys(const Json& schema, const std::string& place);
// "#/$defs/a" of a $ref.
std::string reference_of(const Json& value, const std::string& place);
// What a reference names; null if there is nothing.
const Json* find_schema(const Json& root, const std::string& reference);

std::string json_text_of(const Json& schema, const char* key, const std::string& place);
// minItems and the like; `otherwise` where it is absent.
std::uint32_t count_of(const Json& schema, const char* key, std::uint32_t otherwise, const std::string& place);
// The values of const and enum that have a type which the schema allows.
std::vector<Json> values_of(const Json& schema, const std::string& place);
// Those of `type`, or those that the other keys are about; all if there is none.
std::vector<std::string> types_of(const Json& schema, const std::string& place);

struct Bounds {
  std::optional<std::int64_t> least, most;
};
Bounds bounds_of(const Json& schema, bool integer, const std::string& place);

struct Member {
  std::string name;
  const Json* schema = nullptr;  // null: of `required` only
  bool required = false;
};
// Of properties in their order, then those that are only required.
std::vector<Member> members_of(const Json& schema, const std::string& place);
// A name, as a string, that is none of these.
Expression other_name(Rules& rules, const std::vector<Member>& members);

// The characters of a string of this format.
Expression formatted(const std::string& format, const std::string& place);

// Whether it is known that no value is of both schemas.
bool are_apart(const Json& root, const Json& a, const Json& b, const std::string& place);

}  // namespace mlx::infer::grammar
