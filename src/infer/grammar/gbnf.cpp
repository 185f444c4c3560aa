// A recursive descent, as deep as groups are in each other.
#include "infer/grammar/gbnf.h"

#include <algorithm>
#include <map>
#include <optional>

#include "base/bytes.h"
#include "base/error.h"
#include "base/text.h"
#include "data/subword/utf8.h"

namespace mlx::infer::grammar {
namespace {

constexpr std::size_t kLargestSource = std::size_t{1} << 20, kMostRules = 20'000;
constexpr int kDeepestGroup = 100;

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

std::optional<std::uint32_t> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return {};
}

class GbnfParser {
 public:
  GbnfParser(std::string_view source, const std::string& what) : source_(source), what_(what) {}

  Rules parse() {
    if (source_.size() > kLargestSource) refuse("more than {} bytes", kLargestSource);
    if (!is_utf8(source_)) refuse("it is not UTF-8");
    for (skip(true); at_ < source_.size(); skip(true)) parse_rule();
    for (const auto& [name, number] : numbers_)
      if (!defined_[number]) fail(ErrorKind::kUsage, "{}: the rule '{}' is used and not there", what_, name);
    const auto root = numbers_.find("root");
    if (root == numbers_.end()) fail(ErrorKind::kUsage, "{}: there is no rule 'root'", what_);
    out_.root = root->second;
    return std::move(out_);
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    const auto line = 1 + std::ranges::count(source_.substr(0, at_), '\n');
    fail(ErrorKind::kUsage, "{}:{}: {}", what_, line, fmt::format(format, std::forward<Args>(args)...));
  }

  char now() const { return at_ < source_.size() ? source_[at_] : '\0'; }
  bool take(std::string_view text) {
    if (!source_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  // Blanks and comments; line ends too if `lines`.
  void skip(bool lines) {
    while (at_ < source_.size()) {
      const char c = now();
      if (c == '#') {
        at_ = std::min(source_.find('\n', at_), source_.size());
      } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        break;
      }
    }
  }

  std::string name() {
    const std::size_t begin = at_;
    while (is_name(now())) ++at_;
    if (at_ == begin) refuse("expected a rule, `name ::= …`, found {}", found());
    return std::string(source_.substr(begin, at_ - begin));
  }
  std::string found() const {
    if (at_ >= source_.size()) return "the end";
    const data::subword::Character c = data::subword::character_at(source_, at_);
    return fmt::format("'{}'", printable(std::string(source_.substr(at_, c.bytes))));
  }

  std::size_t number_of(const std::string& rule_name) {
    const auto [found_at, fresh] = numbers_.emplace(rule_name, out_.rules.size());
    if (fresh) {
      if (out_.rules.size() == kMostRules) refuse("more than {} rules", kMostRules);
      out_.add(rule_name, {});
      defined_.push_back(false);
    }
    return found_at->second;
  }

  void parse_rule() {
    const std::string rule_name = name();
    const std::size_t number = number_of(rule_name);
    if (defined_[number]) refuse("a second rule '{}'", rule_name);
    skip(false);
    if (!take("::=")) refuse("expected ::= behind '{}', found {}", rule_name, found());
    skip(true);
    defined_[number] = true;
    Expression body = parse_choice(0);
    out_.rules[number].body = std::move(body);
    if (at_ < source_.size() && now() != '\n' && now() != '\r')
      refuse("expected the end of the rule, found {}", found());
  }

  // Whether a '|' comes, perhaps on the next line.
  bool another() {
    const std::size_t before = at_;
    skip(true);
    if (take("|")) return skip(true), true;
    at_ = before;
    return false;
  }

  Expression parse_choice(int depth) {
    std::vector<Expression> parts;
    do parts.push_back(parse_sequence(depth));
    while (another());
    return choice(std::move(parts));
  }

  Expression parse_sequence(int depth) {
    std::vector<Expression> parts;
    for (;;) {
      std::optional<Expression> one = parse_item(depth);
      if (!one) break;
      skip(depth > 0);
      while (std::optional<std::pair<std::uint32_t, std::uint32_t>> times = parse_times()) {
        one = repeat(std::move(*one), times->first, times->second);
        skip(depth > 0);
      }
      parts.push_back(std::move(*one));
    }
    return sequence(std::move(parts));
  }

  // None where no item begins.
  std::optional<Expression> parse_item(int depth) {
    const char c = now();
    if (c == '"') return parse_text();
    if (c == '[') return parse_class();
    if (take(".")) return character(all_but({}));
    if (take("(")) {
      if (depth == kDeepestGroup) refuse("more than {} groups in each other", kDeepestGroup);
      skip(true);
      Expression group = parse_choice(depth + 1);
      skip(true);
      if (!take(")")) refuse("expected ), found {}", found());
      return group;
    }
    if (c == '<' || c == '!') refuse("tokens, such as <[42]>, are not supported: a grammar is of characters");
    if (!is_name(c)) return {};
    return rule(number_of(name()));
  }

  std::optional<std::pair<std::uint32_t, std::uint32_t>> parse_times() {
    if (take("*")) return std::pair{0u, kNoLimit};
    if (take("+")) return std::pair{1u, kNoLimit};
    if (take("?")) return std::pair{0u, 1u};
    if (!take("{")) return {};
    const auto blank = [this] {
      while (now() == ' ') ++at_;
    };
    blank();
    const std::uint32_t least = parse_count();
    std::uint32_t most = least;
    blank();
    if (take(",")) {
      blank();
      most = now() == '}' ? kNoLimit : parse_count();
      blank();
    }
    if (!take("}")) refuse("expected }}, found {}", found());
    if (most < least) refuse("{{{},{}}}: the second number is smaller", least, most);
    return std::pair{least, most};
  }

  std::uint32_t parse_count() {
    constexpr std::uint32_t kMost = 1'000'000'000;
    std::uint64_t value = 0;
    const std::size_t begin = at_;
    while (now() >= '0' && now() <= '9') {
      value = value * 10 + static_cast<std::uint64_t>(now() - '0');
      if (value > kMost) refuse("a repetition of more than {}", kMost);
      ++at_;
    }
    if (at_ == begin) refuse("expected a number, found {}", found());
    return static_cast<std::uint32_t>(value);
  }

  // One character of a text or a class, which `close` ends.
  char32_t parse_character(char close) {
    if (at_ >= source_.size() || now() == '\n') refuse("a missing {}", close);
    if (!take("\\")) {
      const data::subword::Character c = data::subword::character_at(source_, at_);
      at_ += c.bytes;
      return c.code;
    }
    const char c = now();
    ++at_;
    switch (c) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'x':
        return parse_hex(2);
      case 'u':
        return parse_hex(4);
      case 'U':
        return parse_hex(8);
      default:
        break;
    }
    constexpr std::string_view kThemselves = "\\\"[]-^/";
    if (c == '\0' || kThemselves.find(c) == std::string_view::npos) {
      --at_;
      refuse("there is no escape \\{}", at_ < source_.size() ? std::string(1, c) : "");
    }
    return static_cast<unsigned char>(c);
  }

  char32_t parse_hex(int digits) {
    char32_t code = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const std::optional<std::uint32_t> digit = hex_digit(now());
      if (!digit) refuse("expected {} hexadecimal digits, found {}", digits, found());
      code = code << 4 | *digit;
    }
    if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
      refuse("U+{:04X} is no character", static_cast<std::uint32_t>(code));
    return code;
  }

  Expression parse_text() {
    take("\"");
    std::string bytes;
    while (now() != '"' || at_ >= source_.size()) data::subword::append_utf8(bytes, parse_character('"'));
    take("\"");
    return text(std::move(bytes));
  }

  Expression parse_class() {
    take("[");
    const bool negated = take("^");
    CodePoints ranges;
    while (now() != ']' || at_ >= source_.size()) {
      const char32_t low = parse_character(']');
      char32_t high = low;
      if (now() == '-' && at_ + 1 < source_.size() && source_[at_ + 1] != ']') {
        ++at_;
        high = parse_character(']');
        if (high < low) refuse("a range of a class ends before it begins");
      }
      ranges.emplace_back(low, high);
    }
    take("]");
    CodePoints set = code_points(std::move(ranges));
    if (negated) set = all_but(set);
    if (set.empty()) refuse("an empty class");
    return character(std::move(set));
  }

  std::string_view source_;
  const std::string& what_;
  std::size_t at_ = 0;
  Rules out_;
  std::map<std::string, std::size_t> numbers_;
  std::vector<bool> defined_;
};

}  // namespace

Rules parse_gbnf(std::string_view source, const std::string& what) {
  return GbnfParser(source, what).parse();
}

}  // namespace mlx::infer::grammar
