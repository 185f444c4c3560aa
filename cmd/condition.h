// Conditions over named values, "valid_accuracy>=0.9": what `mlx log --where` and `mlx eval --require` take.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"

namespace mlx::cmd {

// What a condition looks at: a number, a text, or a list of them.
struct Value {
  std::optional<double> number;
  std::string text;  // if it is not a number; for a list its JSON
  bool is_list = false;
};
Value value_of(const Json& value);
std::string text_of(const Value& value);  // numbers in their shortest form

enum class Comparison { kLess, kAtMost, kGreater, kAtLeast, kEqual, kUnequal };
const char* sign_of(Comparison comparison);  // < <= > >= = !=

struct Condition {
  std::string name;
  Comparison comparison = Comparison::kEqual;
  std::string text;
  std::optional<double> number;  // `text` as one
};
// kUsage, naming `option` and showing `example`, if `text` is not a condition: `<` and its like need numbers.
Condition parse_condition(const std::string& text, const char* option, const char* example);

// Numbers by their value, texts as they are; a list equals what is written like it, with or without brackets. NaN is
// only != to everything. `as_f32`: fractions that are the same in f32 are equal.
bool holds(const Condition& condition, const Value& value, bool as_f32 = false);

}  // namespace mlx::cmd
