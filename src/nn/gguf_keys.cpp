// Values of metadata with their checks.

#include "nn/gguf_keys.h"

#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace mlx::nn {

const formats::GgufValue* GgufKeys::find(const char* key) const {
  const auto found = metadata_.find(prefix_ + key);
  read_.insert(prefix_ + key);
  return found == metadata_.end() ? nullptr : &found->second;
}

void GgufKeys::corrupt(const char* key, const char* expected) const {
  fail(ErrorKind::kCorrupt, "{}: the key '{}{}': expected {}", what_, prefix_, key, expected);
}

void GgufKeys::unsupported(const std::string& found, const std::string& supported) const {
  throw Error(ErrorKind::kUsage, fmt::format("{}: {} is not supported", what_, printable(found)),
              "supported: " + supported);
}

std::optional<std::int64_t> GgufKeys::integer(const char* key, std::int64_t least, std::int64_t most) const {
  const formats::GgufValue* const value = find(key);
  if (!value) return {};
  std::vector<std::int64_t> numbers;
  const bool one = !value->array && gguf_integers(*value, numbers) && numbers.size() == 1;
  if (!one || numbers[0] < least || numbers[0] > most)
    corrupt(key, fmt::format("an integer from {} to {}", least, most).c_str());
  return numbers[0];
}

std::int64_t GgufKeys::needed_integer(const char* key, std::int64_t most) const {
  const std::optional<std::int64_t> value = integer(key, 1, most);
  if (!value) fail(ErrorKind::kCorrupt, "{}: the key '{}{}' is missing", what_, prefix_, key);
  return *value;
}

std::optional<double> GgufKeys::number(const char* key) const {
  const formats::GgufValue* const value = find(key);
  if (!value) return {};
  std::vector<double> numbers;
  const bool one = !value->array && gguf_numbers(*value, numbers) && numbers.size() == 1;
  if (!one || !std::isfinite(numbers[0])) corrupt(key, "a number");
  return numbers[0];
}

std::optional<bool> GgufKeys::boolean(const char* key) const {
  const formats::GgufValue* const value = find(key);
  if (!value) return {};
  if (value->array || value->kind != formats::GgufKind::kBool) corrupt(key, "true or false");
  return value->bytes[0] != 0;
}

std::optional<std::string> GgufKeys::string(const char* key) const {
  const formats::GgufValue* const value = find(key);
  if (!value) return {};
  std::vector<std::string_view> strings;
  const bool one = !value->array && gguf_strings(*value, strings) && strings.size() == 1;
  if (!one || !is_utf8(strings[0])) corrupt(key, "a string of UTF-8");
  return std::string(strings[0]);
}

std::vector<std::string_view> GgufKeys::strings(const char* key) const {
  std::vector<std::string_view> out;
  const formats::GgufValue* const value = find(key);
  if (value && (!value->array || !gguf_strings(*value, out))) corrupt(key, "an array of strings");
  for (const std::string_view text : out)
    if (!is_utf8(text)) corrupt(key, "strings of UTF-8");
  return out;
}

std::vector<std::int64_t> GgufKeys::integers(const char* key) const {
  std::vector<std::int64_t> out;
  const formats::GgufValue* const value = find(key);
  if (value && (!value->array || !gguf_integers(*value, out))) corrupt(key, "an array of integers");
  return out;
}

std::vector<double> GgufKeys::numbers(const char* key) const {
  std::vector<double> out;
  const formats::GgufValue* const value = find(key);
  if (value && (!value->array || !gguf_numbers(*value, out))) corrupt(key, "an array of numbers");
  for (const double number : out)
    if (!std::isfinite(number)) corrupt(key, "numbers that are finite");
  return out;
}

void GgufKeys::check_all_read() const {
  for (auto at = metadata_.lower_bound(prefix_); at != metadata_.end() && at->first.starts_with(prefix_); ++at) {
    if (read_.contains(at->first)) continue;
    throw Error(ErrorKind::kUsage, fmt::format("{}: the key '{}' is not known", what_, printable(at->first)),
                "it may change what the model computes, so it is refused");
  }
}

}  // namespace mlx::nn
