// Filters, tests and methods of templates. Used by expressions.cpp, which refuses other names, and run.cpp.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "infer/jinja/value.h"

namespace mlx::infer::jinja {

struct Arguments {
  std::vector<Value> values{};
  std::vector<std::pair<std::string, Value>> named{};
};

// What a function was given: each argument by its place or its name, and nothing else.
class GivenArguments {
 public:
  GivenArguments(std::string what, const Arguments& given, std::initializer_list<std::string_view> names);
  // nullptr where it was not given.
  const Value* operator[](std::size_t place) const { return found_[place]; }
  const Value& needed(std::size_t place) const;
  const std::string& text(std::size_t place) const;  // throws Fault for another type
  std::int64_t integer(std::size_t place, std::int64_t otherwise) const;
  bool truth_of(std::size_t place) const { return found_[place] && truth(*found_[place]); }

 private:
  std::string what_;
  std::vector<std::string> names_;
  std::vector<const Value*> found_;
};

// Throw Fault for what is not supported, with what is.
void check_filter_name(std::string_view name);
void check_test_name(std::string_view name);

Value apply_filter(std::string_view name, const Value& value, const Arguments& arguments, Budget& budget);
bool apply_test(std::string_view name, const Value& value, const Arguments& arguments, Budget& budget);

bool has_method(const Value& value, std::string_view name);
Value call_method(const Value& value, std::string_view name, const Arguments& arguments, Budget& budget);

Value range_of(const Arguments& arguments, Budget& budget);
Value time_text(const Arguments& arguments, const std::tm& now, Budget& budget);  // strftime_now

void need_defined(const Value& value);  // throws Fault
// value[key], and value.key, which differ where a key has the name of a method.
Value item_named(const Value& value, const Value& key, Budget& budget);
Value attribute_of(const Value& value, const std::string& name);

}  // namespace mlx::infer::jinja
