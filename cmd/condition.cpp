#include "cmd/condition.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <compare>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"

namespace mlx::cmd {
namespace {

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::partial_ordering order_of(double a, double b, bool as_f32) {
  const bool fractions = std::isfinite(a) && std::isfinite(b) && a != std::floor(a);
  if (as_f32 && fractions && static_cast<float>(a) == static_cast<float>(b)) return std::partial_ordering::equivalent;
  return a <=> b;
}

// "[8, 16]", "8,16" and, of one item, "8" or its bare word.
bool equals_list(const std::string& list, const std::string& text) {
  const Json items = parse_json(list, "a list");
  for (const std::string& written : {text, "[" + text + "]", "[\"" + text + "\"]"}) {
    try {
      if (parse_json(written, "a value") == items) return true;
    } catch (const Error&) {
      continue;  // written otherwise
    }
  }
  return false;
}

}  // namespace

Value value_of(const Json& value) {
  if (value.is_number()) return {value.get<double>(), {}};
  if (value.is_array()) return {std::nullopt, value.dump(), true};
  // An optimizer is an object with its settings, and written by its name.
  if (value.is_object() && value.contains("name") && value["name"].is_string()) return value_of(value["name"]);
  return {std::nullopt, value.is_string() ? value.get<std::string>() : value.dump()};
}

std::string text_of(const Value& value) {
  return value.number ? fmt::format("{}", *value.number) : value.text;
}

Condition parse_condition(const std::string& text, const char* option, const char* example) {
  const std::size_t at = text.find_first_of("<>=!");
  const std::size_t end = at == std::string::npos ? at : text.find_first_not_of("<>=!", at);
  Condition condition;
  if (end != std::string::npos) {
    condition = {std::string(trimmed(text.substr(0, at))), text.substr(at, end - at),
                 std::string(trimmed(text.substr(end))), std::nullopt};
    condition.number = number_of(condition.text);
    if (condition.operation == "==") condition.operation.pop_back();
  }
  const bool known = std::ranges::any_of(std::initializer_list<const char*>{"<", "<=", ">", ">=", "=", "!="},
                                         [&](const char* one) { return condition.operation == one; });
  if (!known || condition.name.empty() || condition.text.empty()) {
    throw Error(ErrorKind::kUsage, fmt::format("{} \"{}\": expected NAME, an operator and a value", option, text),
                fmt::format("like {} {}; operators are < <= > >= = !=", option, shell_quoted(example)));
  }
  if (!condition.number && condition.operation.find_first_of("<>") != std::string::npos)
    fail(ErrorKind::kUsage, "{} \"{}\": '{}' compares numbers", option, text, condition.operation);
  return condition;
}

bool holds(const Condition& condition, const Value& value, bool as_f32) {
  const std::string& operation = condition.operation;
  if (!value.number || !condition.number) {
    if (operation != "=" && operation != "!=") return false;
    const bool equal =
        !value.number && (value.is_list ? equals_list(value.text, condition.text) : value.text == condition.text);
    return equal == (operation == "=");
  }
  const std::partial_ordering order = order_of(*value.number, *condition.number, as_f32);
  if (operation == "=") return order == 0;
  if (operation == "!=") return order != 0;
  if (operation == "<") return order < 0;
  if (operation == "<=") return order <= 0;
  return operation == ">" ? order > 0 : order >= 0;
}

}  // namespace mlx::cmd
