// Ranges of integers are alternatives of digits, as many as the bounds have.
#include "infer/grammar/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace mlx::infer::grammar {
namespace {

constexpr std::uint32_t kMostDigits = 16, kMostBlanks = 20;

Expression empty() {
  return sequence({});
}

Expression digit(char least, char most) {
  return character({{static_cast<unsigned char>(least), static_cast<unsigned char>(most)}});
}

Expression any_of(std::string_view characters) {
  CodePoints set;
  for (const char c : characters) set.emplace_back(static_cast<unsigned char>(c), static_cast<unsigned char>(c));
  return character(code_points(std::move(set)));
}

std::uint32_t length(std::string_view digits_of) {
  return static_cast<std::uint32_t>(digits_of.size());
}

// Digits of the length of `bound` that are at least, or at most, as large.
Expression beside(std::string_view bound, bool above) {
  if (bound.empty()) return empty();
  std::vector<Expression> either;
  either.push_back(sequence({text(std::string(bound.substr(0, 1))), beside(bound.substr(1), above)}));
  const char end = above ? '9' : '0';
  if (bound[0] != end) {
    Expression other =
        above ? digit(static_cast<char>(bound[0] + 1), end) : digit(end, static_cast<char>(bound[0] - 1));
    const std::uint32_t rest = length(bound) - 1;
    either.push_back(sequence({std::move(other), digits(rest, rest)}));
  }
  return choice(std::move(either));
}

// Digits between two bounds of one length.
Expression between(std::string_view low, std::string_view high) {
  if (low.empty()) return empty();
  Expression first = text(std::string(low.substr(0, 1)));
  if (low[0] == high[0]) return sequence({std::move(first), between(low.substr(1), high.substr(1))});
  const std::uint32_t rest = length(low) - 1;
  std::vector<Expression> either;
  either.push_back(sequence({std::move(first), beside(low.substr(1), true)}));
  if (low[0] + 1 < high[0])
    either.push_back(
        sequence({digit(static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1)), digits(rest, rest)}));
  either.push_back(sequence({text(std::string(high.substr(0, 1))), beside(high.substr(1), false)}));
  return choice(std::move(either));
}

using Magnitude = std::uint64_t;

// Numbers without a sign; `high` may be absent.
Expression magnitudes(Magnitude low, std::optional<Magnitude> high) {
  std::string from = std::to_string(low);
  const std::string to = high ? std::to_string(*high) : "";
  std::vector<Expression> either;
  while (!high || from.size() < to.size()) {
    either.push_back(beside(from, true));
    if (!high) {
      const std::uint32_t most = std::max(length(from), kMostDigits - 1);
      if (most > length(from) - 1 && length(from) < kMostDigits)
        either.push_back(sequence({digit('1', '9'), digits(length(from), most)}));
      return choice(std::move(either));
    }
    from = "1" + std::string(from.size(), '0');
  }
  either.push_back(between(from, to));
  return choice(std::move(either));
}

// The bounds without signs of what is negative, and of what is not; none where there is nothing.
struct Parts {
  bool negative = false, positive = false;
  Magnitude negative_from = 0, positive_from = 0;
  std::optional<Magnitude> negative_to{}, positive_to{};
};

Magnitude magnitude(std::int64_t value) {
  return value < 0 ? Magnitude{0} - static_cast<Magnitude>(value) : static_cast<Magnitude>(value);
}

Parts parts_of(std::optional<std::int64_t> least, std::optional<std::int64_t> most) {
  Parts out;
  out.positive = !most || *most >= 0;
  if (least && *least > 0) out.positive_from = magnitude(*least);
  if (most && *most >= 0) out.positive_to = magnitude(*most);
  out.negative = !least || *least < 0;
  if (most && *most < 0) out.negative_from = magnitude(*most);
  if (least && *least < 0) out.negative_to = magnitude(*least);
  return out;
}

Expression fraction() {
  return sequence({text("."), digits(1, kMostDigits)});
}

// As magnitudes(), and what is between the integers.
Expression fractions(Magnitude low, std::optional<Magnitude> high) {
  if (!high) return sequence({magnitudes(low, high), maybe(fraction())});
  std::vector<Expression> either;
  if (low < *high) either.push_back(sequence({magnitudes(low, *high - 1), maybe(fraction())}));
  Expression zeros = sequence({text("."), repeat(text("0"), 1, kMostDigits)});
  either.push_back(sequence({text(std::to_string(*high)), maybe(std::move(zeros))}));
  return choice(std::move(either));
}

Expression escaped(char32_t code) {
  constexpr std::string_view kShort = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
  const std::size_t at = code < 0x80 ? kShort.find(static_cast<char>(code)) : std::string_view::npos;
  if (at != std::string_view::npos) return text(std::string("\\") + kLetters[at]);
  return text(fmt::format("\\u{:04x}", static_cast<std::uint32_t>(code)));
}

}  // namespace

const CodePoints& plain_characters() {
  static const CodePoints plain = all_but({{0, 0x1F}, {'"', '"'}, {'\\', '\\'}});
  return plain;
}

Expression written(const CodePoints& set) {
  std::vector<Expression> either;
  if (CodePoints plain = common(set, plain_characters()); !plain.empty()) either.push_back(character(std::move(plain)));
  for (const auto& [low, high] : common(set, {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}))
    for (char32_t code = low; code <= high; ++code) either.push_back(escaped(code));
  return choice(std::move(either));
}

Expression digits(std::uint32_t least, std::uint32_t most) {
  return repeat(digit('0', '9'), least, most);
}

Expression integers(std::optional<std::int64_t> least, std::optional<std::int64_t> most) {
  const Parts parts = parts_of(least, most);
  std::vector<Expression> either;
  if (parts.positive) either.push_back(magnitudes(parts.positive_from, parts.positive_to));
  if (parts.negative)
    either.push_back(sequence({text("-"), magnitudes(std::max<Magnitude>(parts.negative_from, 1), parts.negative_to)}));
  return choice(std::move(either));
}

Expression numbers(std::optional<std::int64_t> least, std::optional<std::int64_t> most) {
  const Parts parts = parts_of(least, most);
  std::vector<Expression> either;
  if (parts.positive) either.push_back(fractions(parts.positive_from, parts.positive_to));
  if (parts.negative) either.push_back(sequence({text("-"), fractions(parts.negative_from, parts.negative_to)}));
  return choice(std::move(either));
}

Expression any_number() {
  Expression exponent = sequence({any_of("eE"), maybe(any_of("+-")), digits(1, 2)});
  return sequence({maybe(text("-")), magnitudes(0, {}), maybe(fraction()), maybe(std::move(exponent))});
}

std::size_t JsonRules::once(std::optional<std::size_t>& number, const char* name, Expression (JsonRules::*make)()) {
  if (!number) {
    const std::size_t added = rules_.add(name, {});  // there before its body, which may refer to it
    number = added;
    Expression body = (this->*make)();
    rules_.rules[added].body = std::move(body);
  }
  return *number;
}

Expression JsonRules::space() {
  return rule(once(space_, "white space", &JsonRules::make_space));
}

Expression JsonRules::make_space() {
  return choice({empty(), text(" "), sequence({text("\n"), repeat(any_of(" \t"), 0, kMostBlanks)})});
}

Expression JsonRules::character() {
  return rule(once(character_, "character", &JsonRules::make_character));
}

// Surrogates in pairs only.
Expression JsonRules::make_character() {
  const auto hex = [](std::uint32_t count) { return repeat(any_of("0123456789abcdefABCDEF"), count, count); };
  Expression low = sequence({text("\\u"), any_of("dD"), any_of("cdefCDEF"), hex(2)});
  Expression pair = sequence({any_of("dD"), any_of("89abAB"), hex(2), std::move(low)});
  Expression code = choice({sequence({any_of("0123456789abcefABCEF"), hex(3)}),
                            sequence({any_of("dD"), any_of("01234567"), hex(2)}), std::move(pair)});
  Expression escape = choice({any_of("\"\\/bfnrt"), sequence({text("u"), std::move(code)})});
  return choice({grammar::character(plain_characters()), sequence({text("\\"), std::move(escape)})});
}

Expression JsonRules::string(std::uint32_t least, std::uint32_t most) {
  return sequence({text("\""), repeat(character(), least, most), text("\"")});
}

Expression JsonRules::value() {
  return rule(once(value_, "value", &JsonRules::make_value));
}

Expression JsonRules::make_value() {
  return choice({object(), array(), string(), any_number(), text("true"), text("false"), text("null")});
}

Expression JsonRules::array() {
  return rule(once(array_, "array", &JsonRules::make_array));
}

Expression JsonRules::make_array() {
  return bracketed("[", maybe(sequence({value(), repeat(behind_comma(value()), 0, kNoLimit)})), "]");
}

Expression JsonRules::object() {
  return rule(once(object_, "object", &JsonRules::make_object));
}

Expression JsonRules::make_object() {
  Expression first = member(string(), value()), more = behind_comma(member(string(), value()));
  return bracketed("{", maybe(sequence({std::move(first), repeat(std::move(more), 0, kNoLimit)})), "}");
}

Expression JsonRules::bracketed(const char* open, Expression parts, const char* close) {
  return sequence({text(open), space(), std::move(parts), space(), text(close)});
}

Expression JsonRules::behind_comma(Expression part) {
  return sequence({text(","), space(), std::move(part)});
}

Expression JsonRules::member(Expression name, Expression what) {
  return sequence({std::move(name), text(":"), space(), std::move(what)});
}

}  // namespace mlx::infer::grammar
