// JSON (nlohmann). `Json` keeps the order of keys as written; `canonical` sorts them, so that equal values have equal
// bytes.
//
// Including this is costly to compile: headers declare with json_fwd.h, sources include this.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

#include "base/json_fwd.h"

namespace mlx {

// Throws kCorrupt: "WHAT: line 3, column 7: …". Depth is limited to 128; a key that occurs
// twice in an object is refused.
Json parse_json(std::string_view text, std::string_view what);
// UTF-8 without white space, keys sorted by bytes, numbers in their shortest form that reads back the same; invalid
// UTF-8 is kCorrupt. Digests are made over this form.
std::string canonical(const Json& value);

// Typed access that throws kCorrupt naming `what` and the key if it is missing or of another type.
std::string json_string(const Json& object, std::string_view key, std::string_view what);
std::int64_t json_int(const Json& object, std::string_view key, std::string_view what);
double json_number(const Json& object, std::string_view key, std::string_view what);
bool json_bool(const Json& object, std::string_view key, std::string_view what);
const Json& json_array(const Json& object, std::string_view key, std::string_view what);
const Json& json_object(const Json& object, std::string_view key, std::string_view what);

}  // namespace mlx
