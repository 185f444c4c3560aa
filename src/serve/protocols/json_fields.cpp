// See json_fields.h.
#include "serve/protocols/json_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text.h"

namespace mlx::serve {

void refuse_field(std::string_view name, std::string_view expected, const Json& got) {
  constexpr std::size_t kShown = 40;
  const std::string text = got.dump(-1, ' ', false, Json::error_handler_t::replace);
  fail(ErrorKind::kUsage, "'{}': expected {}, got {}", printable(name.substr(0, kShown)), expected,
       printable(std::string_view(text).substr(0, kShown)));
}

std::int64_t integer_of(const Json& value, std::string_view name, std::int64_t least, std::int64_t most) {
  const bool small =
      value.is_number_integer() &&
      (!value.is_number_unsigned() ||
       value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
  if (small && value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= most)
    return value.get<std::int64_t>();
  refuse_field(name, fmt::format("an integer from {} to {}", least, most), value);
}

double number_of(const Json& value, std::string_view name, double least, double most) {
  if (value.is_number() && value.get<double>() >= least && value.get<double>() <= most) return value.get<double>();
  refuse_field(name, fmt::format("a number from {} to {}", least, most), value);
}

bool flag_of(const Json& value, std::string_view name) {
  if (value.is_boolean()) return value.get<bool>();
  refuse_field(name, "true or false", value);
}

const std::string& text_of(const Json& value, std::string_view name) {
  if (value.is_string()) return value.get_ref<const std::string&>();
  refuse_field(name, "a text", value);
}

const Json& object_of(const Json& value, std::string_view name) {
  if (value.is_object()) return value;
  refuse_field(name, "an object", value);
}

const Json& list_of(const Json& value, std::string_view name) {
  if (value.is_array()) return value;
  refuse_field(name, "a list", value);
}

std::vector<std::string> texts_of(const Json& value, std::string_view name, std::size_t most) {
  const Json list = value.is_array() ? value : Json::array({value});
  std::vector<std::string> out;
  for (const Json& one : list) {
    if (out.size() == most || !one.is_string() || one.get_ref<const std::string&>().empty())
      refuse_field(name, fmt::format("a text, or a list of at most {} texts that are not empty", most), value);
    out.push_back(one.get<std::string>());
  }
  return out;
}

Json body_of(std::string_view body) {
  Json out = parse_json(body, "body");
  if (!out.is_object()) fail(ErrorKind::kUsage, "body: expected an object");
  return out;
}

}  // namespace mlx::serve
