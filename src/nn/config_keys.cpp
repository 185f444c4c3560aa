#include "nn/config_keys.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/text.h"
#include "nn/imported.h"

namespace mlx::nn {

const Json* ConfigKeys::find(const char* key) const {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

const Json& ConfigKeys::needed(const char* key) const {
  if (const Json* value = find(key)) return *value;
  fail(ErrorKind::kCorrupt, "{}: the key '{}' is missing", what, key);
}

std::int64_t ConfigKeys::integer(const char* key, std::int64_t most, std::optional<std::int64_t> fallback) const {
  if (fallback && !find(key)) return *fallback;
  const Json& value = needed(key);
  const bool whole = value.is_number_integer() && value.get<double>() >= 1;
  if (!whole || value.get<double>() > static_cast<double>(most))
    fail(ErrorKind::kCorrupt, "{}: '{}': expected an integer from 1 to {}, got {}", what, key, most, shown(value));
  return value.get<std::int64_t>();
}

float ConfigKeys::number(const char* key, double least, double most, std::optional<double> fallback) const {
  if (fallback && !find(key)) return static_cast<float>(*fallback);
  const Json& value = needed(key);
  if (!value.is_number() || !(value.get<double>() >= least && value.get<double>() <= most))
    fail(ErrorKind::kCorrupt, "{}: '{}': expected a number from {} to {}, got {}", what, key, least, most,
         shown(value));
  return static_cast<float>(value.get<double>());
}

bool ConfigKeys::boolean(const char* key, bool fallback) const {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_boolean())
    fail(ErrorKind::kCorrupt, "{}: '{}': expected true or false, got {}", what, key, shown(*value));
  return value->get<bool>();
}

std::string ConfigKeys::string(const char* key, const char* fallback) const {
  const Json* value = find(key);
  if (!value) return fallback;
  if (!value->is_string()) fail(ErrorKind::kCorrupt, "{}: '{}': expected a string, got {}", what, key, shown(*value));
  return value->get<std::string>();
}

std::string ConfigKeys::shown(const Json& value) {
  constexpr std::size_t kLongest = 40;
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return printable(text);
}

void ConfigKeys::unsupported(const std::string& found, const std::string& supported) const {
  throw Error(ErrorKind::kUsage, fmt::format("{}: {} is not supported", what, printable(found)),
              fmt::format("supported: {}", supported));
}

void check_one_of(const ConfigKeys& keys, const char* what, const std::string& name,
                  std::initializer_list<std::string_view> known, const char* supported) {
  for (const std::string_view each : known)
    if (name == each) return;
  keys.unsupported(fmt::format("{} '{}'", what, name), supported);
}

std::string architecture_named_by(const ConfigKeys& keys) {
  const Json& list = keys.needed("architectures");
  if (!list.is_array() || list.size() != 1 || !list[0].is_string())
    fail(ErrorKind::kCorrupt, "{}: 'architectures': expected one name, got {}", keys.what, ConfigKeys::shown(list));
  return list[0].get<std::string>();
}

void refuse_architecture(const ConfigKeys& keys, const std::string& name, const std::vector<std::string>& known) {
  keys.unsupported(fmt::format("the architecture {}", ConfigKeys::shown(name)),
                   fmt::format("{}", fmt::join(known, ", ")));
}

void check_not_quantized(const ConfigKeys& keys) {
  const Json* const quantized = keys.find("quantization_config");
  if (!quantized) return;
  const std::string method = quantized->is_object() && quantized->contains("quant_method")
                                 ? ConfigKeys::shown((*quantized)["quant_method"])
                                 : "of an unknown kind";
  keys.unsupported(fmt::format("a quantization ({})", method), "weights in F32, F16 and BF16");
}

std::int64_t context_within(const ConfigKeys& keys, std::int64_t own, std::int64_t asked) {
  if (asked > own)
    fail(ErrorKind::kUsage, "{}: a context of {} was asked for, the model's own is {}", keys.what, asked, own);
  const std::int64_t context = asked > 0 ? asked : own;
  if (context <= kLongestContext) return context;
  throw Error(ErrorKind::kUsage, fmt::format("{}: a context of {} is longer than {}", keys.what, own, kLongestContext),
              "import it with a shorter one: --context N");
}

}  // namespace mlx::nn
