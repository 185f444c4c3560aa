// A recursive descent. A pattern without ^ matches anywhere: any characters may stand in front.
#include "infer/grammar/schema_pattern.h"

#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "data/subword/utf8.h"
#include "infer/grammar/json_text.h"

namespace mlx::infer::grammar {
namespace {

constexpr int kDeepestPatternGroup = 100;
constexpr std::uint32_t kMostTimes = 1'000'000;

CodePoints digit_characters() {
  return {{'0', '9'}};
}
CodePoints word_characters() {
  return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
}
CodePoints space_characters() {
  return code_points({{'\t', '\r'},
                      {' ', ' '},
                      {0xA0, 0xA0},
                      {0x1680, 0x1680},
                      {0x2000, 0x200A},
                      {0x2028, 0x2029},
                      {0x202F, 0x202F},
                      {0x205F, 0x205F},
                      {0x3000, 0x3000},
                      {0xFEFF, 0xFEFF}});
}
CodePoints line_ends() {
  return code_points({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}});
}

class PatternParser {
 public:
  PatternParser(std::string_view pattern, const std::string& what) : pattern_(pattern), what_(what) {}

  Expression parse() {
    std::vector<Expression> either;
    do {
      std::vector<Expression> parts;
      if (!take('^')) parts.push_back(anything());
      parts.push_back(parse_sequence(0));
      if (!take('$')) parts.push_back(anything());
      either.push_back(sequence(std::move(parts)));
    } while (take('|'));
    if (at_ < pattern_.size()) refuse_here();
    return choice(std::move(either));
  }

 private:
  template <typename... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::kUsage, "{}: the pattern '{}': {}", what_, printable(pattern_),
         fmt::format(format, std::forward<Args>(args)...));
  }
  [[noreturn]] void refuse_here() const {
    if (now() == '^' || now() == '$')
      refuse("{} is supported only at an end of it, or of one of its alternatives", now());
    refuse("'{}' at offset {} has no meaning there", now(), at_);
  }

  static Expression anything() { return repeat(written(all_but({})), 0, kNoLimit); }

  char now() const { return at_ < pattern_.size() ? pattern_[at_] : '\0'; }
  bool take(char c) {
    if (at_ >= pattern_.size() || pattern_[at_] != c) return false;
    ++at_;
    return true;
  }
  char32_t next_character() {
    const data::subword::Character c = data::subword::character_at(pattern_, at_);
    at_ += c.bytes;
    return c.code;
  }

  Expression parse_choice(int depth) {
    std::vector<Expression> either;
    do either.push_back(parse_sequence(depth));
    while (take('|'));
    return choice(std::move(either));
  }

  Expression parse_sequence(int depth) {
    std::vector<Expression> parts;
    while (at_ < pattern_.size() && now() != '|' && now() != ')' && now() != '$') {
      Expression one = parse_item(depth);
      if (const auto times = parse_times()) one = repeat(std::move(one), times->first, times->second);
      parts.push_back(std::move(one));
    }
    return sequence(std::move(parts));
  }

  Expression parse_item(int depth) {
    if (take('(')) return parse_group(depth);
    if (take('[')) return written(parse_class());
    if (take('.')) return written(all_but(line_ends()));
    if (take('\\')) return written(parse_escape(false));
    constexpr std::string_view kNoItem = "^*+?{}])";
    if (kNoItem.find(now()) != std::string_view::npos) refuse_here();
    const char32_t code = next_character();
    return written({{code, code}});
  }

  Expression parse_group(int depth) {
    if (depth == kDeepestPatternGroup) refuse("more than {} groups in each other", kDeepestPatternGroup);
    if (take('?') && !take(':')) refuse("(?{} is not supported: only groups ( ) and (?: )", now());
    Expression inside = parse_choice(depth + 1);
    if (now() == '$') refuse_here();
    if (!take(')')) refuse("a missing )");
    return inside;
  }

  std::optional<std::pair<std::uint32_t, std::uint32_t>> parse_times() {
    std::optional<std::pair<std::uint32_t, std::uint32_t>> out;
    if (take('*')) {
      out.emplace(0, kNoLimit);
    } else if (take('+')) {
      out.emplace(1, kNoLimit);
    } else if (take('?')) {
      out.emplace(0, 1);
    } else if (take('{')) {
      const std::uint32_t least = parse_count();
      std::uint32_t most = least;
      if (take(',')) most = now() == '}' ? kNoLimit : parse_count();
      if (!take('}') || most < least) refuse("a repetition that is none at offset {}", at_);
      out.emplace(least, most);
    }
    if (out) take('?');  // lazy: the same strings
    return out;
  }

  std::uint32_t parse_count() {
    std::uint32_t value = 0;
    const std::size_t begin = at_;
    for (; now() >= '0' && now() <= '9'; ++at_) {
      value = value * 10 + static_cast<std::uint32_t>(now() - '0');
      if (value > kMostTimes) refuse("a repetition of more than {}", kMostTimes);
    }
    if (at_ == begin) refuse("expected a number at offset {}", at_);
    return value;
  }

  CodePoints parse_class() {
    const bool negated = take('^');
    CodePoints set;
    while (!take(']')) {
      if (at_ >= pattern_.size()) refuse("a missing ]");
      const CodePoints low = class_item();
      const bool range = now() == '-' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']';
      if (!range) {
        set.insert(set.end(), low.begin(), low.end());
        continue;
      }
      take('-');
      const CodePoints high = class_item();
      const auto single = [](const CodePoints& of) { return of.size() == 1 && of[0].first == of[0].second; };
      if (!single(low) || !single(high) || high[0].first < low[0].first) refuse("a range of a class that is none");
      set.emplace_back(low[0].first, high[0].first);
    }
    set = code_points(std::move(set));
    if (negated) set = all_but(set);
    if (set.empty()) refuse("an empty class");
    return set;
  }

  CodePoints class_item() {
    if (take('\\')) return parse_escape(true);
    if (at_ >= pattern_.size()) refuse("a missing ]");
    const char32_t code = next_character();
    return {{code, code}};
  }

  CodePoints parse_escape(bool in_class) {
    if (at_ >= pattern_.size()) refuse("a \\ at the end");
    const char32_t code = next_character();
    const auto one = [](char32_t c) { return CodePoints{{c, c}}; };
    switch (code) {
      case 'd':
        return digit_characters();
      case 'D':
        return all_but(digit_characters());
      case 'w':
        return word_characters();
      case 'W':
        return all_but(word_characters());
      case 's':
        return space_characters();
      case 'S':
        return all_but(space_characters());
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 't':
        return one('\t');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case 'x':
        return one(parse_pattern_hex(2));
      case 'u':
        return one(parse_pattern_hex(4));
      case 'b':
        if (in_class) return one('\b');
        break;
      default:
        break;
    }
    const bool letter = (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') || (code >= '0' && code <= '9');
    if (letter) refuse("\\{} is not supported", static_cast<char>(code));
    return one(code);
  }

  char32_t parse_pattern_hex(int count) {
    char32_t code = 0;
    for (int i = 0; i < count; ++i, ++at_) {
      const char c = now();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) refuse("expected {} hexadecimal digits at offset {}", count, at_);
      code = code << 4 | static_cast<char32_t>(digit);
    }
    if (code >= 0xD800 && code <= 0xDFFF) refuse("a surrogate is no character");
    return code;
  }

  std::string_view pattern_;
  const std::string& what_;
  std::size_t at_ = 0;
};

}  // namespace

Expression matching(std::string_view pattern, const std::string& what) {
  return PatternParser(pattern, what).parse();
}

}  // namespace mlx::infer::grammar
