#include "cmd/condition.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <compare>
#include <utility>

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

constexpr std::array<std::pair<Comparison, const char*>, 6> kSigns = {{{Comparison::kLess, "<"},
                                                                       {Comparison::kAtMost, "<="},
                                                                       {Comparison::kGreater, ">"},
                                                                       {Comparison::kAtLeast, ">="},
                                                                       {Comparison::kEqual, "="},
                                                                       {Comparison::kUnequal, "!="}}};

std::optional<Comparison> parse_comparison(const std::string& sign) {
  if (sign == "==") return Comparison::kEqual;
  for (const auto& [comparison, known] : kSigns) {
    if (sign == known) return comparison;
  }
  return std::nullopt;
}

bool takes_text(Comparison comparison) {
  return comparison == Comparison::kEqual || comparison == Comparison::kUnequal;
}

}  // namespace

const char* sign_of(Comparison comparison) {
  return std::ranges::find(kSigns, comparison, &std::pair<Comparison, const char*>::first)->second;
}

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
  std::optional<Comparison> comparison;
  if (end != std::string::npos) {
    comparison = parse_comparison(text.substr(at, end - at));
    condition.name = trimmed(text.substr(0, at));
    condition.text = trimmed(text.substr(end));
    condition.number = number_of(condition.text);
  }
  if (!comparison || condition.name.empty() || condition.text.empty()) {
    throw Error(ErrorKind::kUsage, fmt::format("{} \"{}\": expected NAME, an operator and a value", option, text),
                fmt::format("like {} {}; operators are < <= > >= = !=", option, shell_quoted(example)));
  }
  condition.comparison = *comparison;
  if (!condition.number && !takes_text(*comparison))
    fail(ErrorKind::kUsage, "{} \"{}\": '{}' compares numbers", option, text, sign_of(*comparison));
  return condition;
}

bool holds(const Condition& condition, const Value& value, bool as_f32) {
  if (!value.number || !condition.number) {
    if (!takes_text(condition.comparison)) return false;
    const bool equal =
        !value.number && (value.is_list ? equals_list(value.text, condition.text) : value.text == condition.text);
    return equal == (condition.comparison == Comparison::kEqual);
  }
  const std::partial_ordering order = order_of(*value.number, *condition.number, as_f32);
  switch (condition.comparison) {
    case Comparison::kLess:
      return order < 0;
    case Comparison::kAtMost:
      return order <= 0;
    case Comparison::kGreater:
      return order > 0;
    case Comparison::kAtLeast:
      return order >= 0;
    case Comparison::kEqual:
      return order == 0;
    case Comparison::kUnequal:
      return order != 0;
  }
  return false;
}

}  // namespace mlx::cmd
