// Values of a request's JSON, by the names of their keys. What is none throws kUsage: "'NAME': expected …, got …". Used
// by the protocols.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace mlx::serve {

[[noreturn]] void refuse_field(std::string_view name, std::string_view expected, const Json& got);
std::int64_t integer_of(const Json& value, std::string_view name, std::int64_t least, std::int64_t most);
double number_of(const Json& value, std::string_view name, double least, double most);
bool flag_of(const Json& value, std::string_view name);
const std::string& text_of(const Json& value, std::string_view name);
const Json& object_of(const Json& value, std::string_view name);
const Json& list_of(const Json& value, std::string_view name);
// A text, or a list of at most `most` texts; none is empty.
std::vector<std::string> texts_of(const Json& value, std::string_view name, std::size_t most);
// A whole body.
Json body_of(std::string_view body);

}  // namespace mlx::serve
