// What JSON is written like, as expressions of a grammar: white space, strings, numbers, any value. Used by
// json_schema.cpp.
//
// Of white space there may be one blank, or a line end with up to 20 blanks and tabs, behind brackets, commas and
// colons, so that no text is endless white space. Numbers have at most 16 digits before the point and behind it, and
// two in an exponent: no program reads one as infinite.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "infer/grammar/rules.h"

namespace mlx::infer::grammar {

// The characters of a string that are written as they are.
const CodePoints& plain_characters();
// A character of `set` in a string, in one form each: with an escape only where JSON needs one.
Expression written(const CodePoints& set);
// [0-9]{least,most}
Expression digits(std::uint32_t least, std::uint32_t most);
// The integers from `least` to `most`; without a bound, those of at most 16 digits.
Expression integers(std::optional<std::int64_t> least, std::optional<std::int64_t> most);
// The same for all numbers, without an exponent. At least one bound is given.
Expression numbers(std::optional<std::int64_t> least, std::optional<std::int64_t> most);
Expression any_number();

// Rules that are added to a grammar when they are first asked for.
class JsonRules {
 public:
  explicit JsonRules(Rules& rules) : rules_(rules) {}
  Expression space();
  Expression character();  // of a string, in every form that JSON has
  Expression string(std::uint32_t least = 0, std::uint32_t most = kNoLimit);  // of so many characters
  Expression value();
  Expression array();
  Expression object();
  // OPEN first, `parts` and CLOSE with white space between.
  Expression bracketed(const char* open, Expression parts, const char* close);
  Expression behind_comma(Expression part);
  // NAME: VALUE
  Expression member(Expression name, Expression what);

 private:
  std::size_t once(std::optional<std::size_t>& number, const char* name, Expression (JsonRules::*make)());
  Expression make_space();
  Expression make_character();
  Expression make_value();
  Expression make_array();
  Expression make_object();

  Rules& rules_;
  std::optional<std::size_t> space_, character_, value_, array_, object_;
};

}  // namespace mlx::infer::grammar
