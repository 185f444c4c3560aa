// One pass: text up to a tag, then the tag's own tokens up to its end.
#include "infer/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>

#include "infer/jinja/text.h"
#include "infer/jinja/value.h"

namespace mlx::infer::jinja {
namespace {

using Kind = Token::Kind;

[[noreturn]] void bad_syntax(std::string message) {
  throw Fault{std::move(message), ErrorKind::kCorrupt};
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || is_digit(c);
}

// Line ends become \n; one at the end of all is none.
std::string with_plain_lines(std::string_view source) {
  std::string out;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    out += source[i] == '\r' ? '\n' : source[i];
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  Lexer(std::string_view source, int& line) : source_(with_plain_lines(source)), rest_(source_), line_(line) {}

  std::vector<Token> run() {
    line_ = 1;
    while (!rest_.empty()) {
      const std::size_t tag = next_tag();
      const std::string_view text = rest_.substr(0, tag);
      if (tag == rest_.size()) {
        add(Kind::kData, std::string(text));
        advance(tag);
        break;
      }
      take_tag(text);
    }
    add(Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::size_t next_tag() const {
    for (std::size_t at = 0; (at = rest_.find('{', at)) != std::string_view::npos; ++at) {
      const char kind = at + 1 < rest_.size() ? rest_[at + 1] : ' ';
      if (kind == '{' || kind == '%' || kind == '#') return at;
    }
    return rest_.size();
  }

  void add(Kind kind, std::string text) {
    if (kind != Kind::kData || !text.empty()) tokens_.push_back({kind, line_, std::move(text)});
  }

  void advance(std::size_t count) {
    line_ += static_cast<int>(std::count(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(count), '\n'));
    rest_.remove_prefix(count);
  }

  bool take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    advance(word.size());
    return true;
  }

  void skip_blanks() { advance(rest_.size() - stripped(rest_, true, false).size()); }

  // The text before a tag, less the blanks that the tag's sign or its line takes away.
  static std::string_view before_tag(std::string_view text, char sign, bool lines, bool line_begins) {
    if (sign == '-') return stripped(text, false, true);
    if (sign == '+' || !lines) return text;
    const std::size_t newline = text.rfind('\n');
    if (newline == std::string_view::npos && !line_begins) return text;
    const std::size_t from = newline == std::string_view::npos ? 0 : newline + 1;
    return stripped(text.substr(from), true, false).empty() ? text.substr(0, from) : text;
  }

  void take_tag(std::string_view text) {
    const char kind = rest_[text.size() + 1];
    const std::size_t after = text.size() + 2;
    const char next = after < rest_.size() ? rest_[after] : ' ';
    const char sign = next == '-' || next == '+' ? next : ' ';
    add(Kind::kData, std::string(before_tag(text, sign, kind != '{', line_begins_)));
    advance(after + (sign == ' ' ? 0 : 1));
    if (kind == '#') return take_comment();
    if (kind == '%' && take_raw()) return;
    add(kind == '{' ? Kind::kVariableBegin : Kind::kBlockBegin, "");
    take_inside(kind == '{' ? "}}" : "%}", kind == '{' ? Kind::kVariableEnd : Kind::kBlockEnd);
  }

  // Behind `end` of a tag: what it takes away of the text that follows.
  void after_end(char sign, bool trims) {
    line_begins_ = false;
    const std::string_view before = rest_;
    if (sign == '-') {
      skip_blanks();
      const std::size_t taken = before.size() - rest_.size();
      line_begins_ = taken > 0 && before[taken - 1] == '\n';
    } else if (trims && sign != '+') {
      line_begins_ = take("\n");
    }
  }

  void take_comment() {
    const std::size_t end = rest_.find("#}");
    if (end == std::string_view::npos) bad_syntax("a comment has no end");
    const char sign = end > 0 ? rest_[end - 1] : ' ';
    advance(end + 2);
    after_end(sign, true);
  }

  // {% raw %} … {% endraw %}: what is between them is no template.
  bool take_raw() {
    const auto matches = [](std::string_view text, std::string_view word, bool trims, char& sign) -> std::size_t {
      std::string_view rest = stripped(text, true, false);
      if (!rest.starts_with(word)) return 0;
      rest = stripped(rest.substr(word.size()), true, false);
      sign = rest.starts_with('-') || (trims && rest.starts_with('+')) ? rest[0] : ' ';
      if (sign != ' ') rest.remove_prefix(1);
      return rest.starts_with("%}") ? text.size() - rest.size() + 2 : 0;
    };
    char sign = ' ';
    const std::size_t size = matches(rest_, "raw", false, sign);
    if (size == 0) return false;
    advance(size);
    after_end(sign, false);
    for (std::size_t at = 0; (at = rest_.find("{%", at)) != std::string_view::npos; at += 2) {
      const std::size_t after = at + 2;
      const char before = after < rest_.size() && (rest_[after] == '-' || rest_[after] == '+') ? rest_[after] : ' ';
      const std::size_t begin = after + (before == ' ' ? 0 : 1);
      const std::size_t length = matches(rest_.substr(begin), "endraw", true, sign);
      if (length == 0) continue;
      add(Kind::kData, std::string(before_tag(rest_.substr(0, at), before, true, line_begins_)));
      advance(begin + length);
      after_end(sign, true);
      return true;
    }
    bad_syntax("{% raw %} has no {% endraw %}");
  }

  void take_inside(std::string_view end, Kind end_kind) {
    std::string open;
    for (;;) {
      skip_blanks();
      if (rest_.empty()) bad_syntax(fmt::format("a tag has no '{}'", end));
      if (open.empty()) {
        const char sign = rest_[0] == '-' || (rest_[0] == '+' && end == "%}") ? rest_[0] : ' ';
        const std::string_view behind = rest_.substr(sign == ' ' ? 0 : 1);
        if (behind.starts_with(end)) {
          add(end_kind, "");
          advance(rest_.size() - behind.size() + end.size());
          return after_end(sign, end == "%}");
        }
      }
      take_token(open);
    }
  }

  void take_token(std::string& open) {
    const char c = rest_[0];
    if (is_digit(c)) return take_number();
    if (is_name(c)) {
      std::size_t size = 1;
      while (size < rest_.size() && is_name(rest_[size])) ++size;
      add(Kind::kName, std::string(rest_.substr(0, size)));
      return advance(size);
    }
    if (c == '\'' || c == '"') return take_string(c);
    take_operator(open);
  }

  void take_number() {
    std::size_t size = 0;
    const auto digits = [&] {
      const std::size_t from = size;
      while (size < rest_.size() && is_digit(rest_[size])) ++size;
      return size > from;
    };
    digits();
    Kind kind = Kind::kInteger;
    if (size + 1 < rest_.size() && rest_[size] == '.' && is_digit(rest_[size + 1])) {
      ++size;
      digits();
      kind = Kind::kNumber;
    }
    if (size < rest_.size() && (rest_[size] == 'e' || rest_[size] == 'E')) {
      const std::size_t before = size++;
      if (size < rest_.size() && (rest_[size] == '+' || rest_[size] == '-')) ++size;
      if (digits()) {
        kind = Kind::kNumber;
      } else {
        size = before;
      }
    }
    const bool odd = size < rest_.size() && is_name(rest_[size]);
    if (odd || (kind == Kind::kInteger && size > 1 && rest_[0] == '0'))
      unsupported(fmt::format("a number such as {}", rest_.substr(0, size + (odd ? 1 : 0))));
    add(kind, std::string(rest_.substr(0, size)));
    advance(size);
  }

  void take_string(char quote) {
    std::size_t end = 1;
    while (end < rest_.size() && rest_[end] != quote) end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) bad_syntax("a text in quotes has no end");
    add(Kind::kString, unescaped(rest_.substr(1, end - 1)));
    advance(end + 1);
  }

  void take_operator(std::string& open) {
    constexpr std::string_view kOperators[] = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
                                               "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto* const found = std::ranges::find_if(kOperators, [this](auto word) { return rest_.starts_with(word); });
    if (found == std::end(kOperators)) {
      const auto byte = static_cast<unsigned char>(rest_[0]);
      if (byte >= 0x80) unsupported("a name with characters outside of ASCII");
      bad_syntax(fmt::format("unexpected character '{}'", byte < 0x20 || byte == 0x7F ? '?' : rest_[0]));
    }
    const char c = (*found)[0];
    if (found->size() == 1 && (c == '(' || c == '[' || c == '{')) open += c == '(' ? ')' : c == '[' ? ']' : '}';
    if (c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) bad_syntax(fmt::format("unexpected '{}'", c));
      open.pop_back();
    }
    add(Kind::kOperator, std::string(*found));
    advance(found->size());
  }

  const std::string source_;
  std::string_view rest_;
  int& line_;
  bool line_begins_ = true;
  std::vector<Token> tokens_{};
};

}  // namespace

std::vector<Token> tokens_of(std::string_view source, int& line) {
  return Lexer(source, line).run();
}

}  // namespace mlx::infer::jinja
