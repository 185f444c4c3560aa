// See text.h.
#include "infer/jinja/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "data/subword/unicode.h"
#include "data/subword/utf8.h"

namespace mlx::infer::jinja {
namespace {

namespace subword = data::subword;
using subword::Category;

template <typename Each>
void each_character(std::string_view text, const Each& each) {
  for (std::size_t at = 0; at < text.size();) {
    const subword::Character character = subword::character_at(text, at);
    each(character.code);
    at += character.bytes;
  }
}

[[noreturn]] void case_unsupported(char32_t code) {
  std::string text;
  subword::append_utf8(text, code);
  unsupported(fmt::format("changing the case of '{}'", text));
}

char32_t upper_case(char32_t code) {
  if (code < 0x80) return code >= 'a' && code <= 'z' ? code - 32 : code;
  const Category category = subword::category_of(code);
  const bool plain = category == Category::kLo || category == Category::kLu || category == Category::kLm ||
                     !subword::is_in(subword::kLetters | subword::kMarks | subword::set_of(Category::kNl) |
                                         subword::set_of(Category::kSo),
                                     code) ||
                     code >= 0x2600;  // symbols: emoji
  if (!plain || category == Category::kLl || category == Category::kLt) case_unsupported(code);
  return code;
}

char32_t lower_case(char32_t code) {
  if (code < 0x80) return code >= 'A' && code <= 'Z' ? code + 32 : code;
  constexpr char32_t kSigma = 0x3A3, kDottedI = 0x130;
  if (code == kSigma || code == kDottedI) case_unsupported(code);
  return subword::lower_of(code);
}

bool is_cased(char32_t code) {
  if (code < 0x80) return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z');
  return subword::is_in(
      subword::set_of(Category::kLu) | subword::set_of(Category::kLl) | subword::set_of(Category::kLt), code);
}

bool is_in_set(char32_t code, std::optional<std::string_view> set) {
  if (!set) return is_blank(code);
  bool found = false;
  each_character(*set, [&](char32_t own) { found = found || own == code; });
  return found;
}

bool is_printable(char32_t code) {
  if (code < 0x80) return code >= 0x20 && code < 0x7F;
  constexpr subword::CategorySet kHidden =
      subword::set_of(Category::kCn, Category::kCo) | subword::set_of(Category::kZs, Category::kZp);
  return !subword::is_in(kHidden, code);
}

char32_t number_in(std::string_view literal, std::size_t& at, std::size_t digits, unsigned base) {
  char32_t code = 0;
  for (std::size_t i = 0; i < digits; ++i, ++at) {
    const char c = at < literal.size() ? literal[at] : ' ';
    const unsigned digit = c >= '0' && c <= '9'   ? static_cast<unsigned>(c - '0')
                           : c >= 'a' && c <= 'f' ? static_cast<unsigned>(c - 'a' + 10)
                           : c >= 'A' && c <= 'F' ? static_cast<unsigned>(c - 'A' + 10)
                                                  : base;
    if (digit >= base) throw Fault{"an escape in a text is not whole", ErrorKind::kCorrupt};
    code = code * base + digit;
  }
  if (code >= subword::kCodePoints || (code >= 0xD800 && code < 0xE000)) unsupported("half a character in an escape");
  return code;
}

// The character behind a backslash at `at`; what is no escape stays.
void append_escape(std::string& to, std::string_view literal, std::size_t& at) {
  constexpr std::string_view kLetters = "abfnrtv\\'\"", kMeaning = "\a\b\f\n\r\t\v\\'\"";
  const char c = literal[at];
  if (const std::size_t known = kLetters.find(c); known != std::string_view::npos) {
    ++at;
    to += kMeaning[known];
  } else if (c == 'x' || c == 'u' || c == 'U') {
    ++at;
    subword::append_utf8(to, number_in(literal, at, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16));
  } else if (c >= '0' && c <= '7') {
    std::size_t digits = 1;
    while (digits < 3 && at + digits < literal.size() && literal[at + digits] >= '0' && literal[at + digits] <= '7')
      ++digits;
    subword::append_utf8(to, number_in(literal, at, digits, 8));
  } else if (c == 'N') {
    unsupported("a character by its name (\\N)");
  } else if (c == '\n') {
    ++at;
  } else {
    to += '\\';
  }
}

}  // namespace

std::int64_t characters(std::string_view text) {
  std::int64_t count = 0;
  each_character(text, [&count](char32_t) { ++count; });
  return count;
}

std::size_t find_text(std::string_view text, std::string_view part, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  const void* const found = ::memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return found ? static_cast<std::size_t>(static_cast<const char*>(found) - text.data()) : std::string_view::npos;
}

bool is_blank(char32_t code) {
  return (code >= 0x1C && code <= 0x1F) || subword::is_white_space(code);
}

std::string_view stripped(std::string_view text, bool left, bool right, std::optional<std::string_view> set) {
  while (left && !text.empty()) {
    const subword::Character first = subword::character_at(text, 0);
    if (!is_in_set(first.code, set)) break;
    text.remove_prefix(first.bytes);
  }
  while (right && !text.empty()) {
    const subword::Character last = subword::character_before(text.data(), text.data() + text.size());
    if (!is_in_set(last.code, set)) break;
    text.remove_suffix(last.bytes);
  }
  return text;
}

std::vector<std::string_view> split(std::string_view text, std::optional<std::string_view> by, std::int64_t most) {
  std::vector<std::string_view> parts;
  if (by) {
    if (by->empty()) fault("split: the separator is empty");
    std::size_t from = 0;
    for (std::size_t at = 0; most != 0 && (at = find_text(text, *by, from)) != std::string_view::npos; --most) {
      parts.push_back(text.substr(from, at - from));
      from = at + by->size();
    }
    parts.push_back(text.substr(from));
    return parts;
  }
  for (text = stripped(text, true, false); !text.empty(); --most) {
    std::size_t end = 0;
    while (end < text.size()) {
      const subword::Character next = subword::character_at(text, end);
      if (is_blank(next.code)) break;
      end += next.bytes;
    }
    if (most == 0) end = text.size();
    parts.push_back(text.substr(0, end));
    text = stripped(text.substr(end), true, false);
  }
  return parts;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  std::size_t from = 0;
  for (std::size_t at = 0; at < text.size();) {
    const subword::Character next = subword::character_at(text, at);
    const char32_t code = next.code;
    const bool ends = (code >= 0x0A && code <= 0x0D) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
                      code == 0x2028 || code == 0x2029;
    const std::size_t end = at;
    at += next.bytes;
    if (!ends) continue;
    if (code == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(from, end - from));
    from = at;
  }
  if (from < text.size()) lines.push_back(text.substr(from));
  return lines;
}

std::string replaced(std::string_view text, std::string_view old, std::string_view fresh, std::int64_t most,
                     Budget& budget) {
  std::string out;
  std::size_t from = 0;
  for (std::size_t at = 0; most != 0; --most) {
    at = find_text(text, old, at);
    if (at == std::string_view::npos) break;
    budget.bytes(fresh.size() + 1);
    out.append(text.substr(from, at - from)).append(fresh);
    from = at + old.size();
    at = from;
    if (!old.empty()) continue;
    if (from == text.size()) break;
    const std::size_t next = subword::character_at(text, from).bytes;  // between all characters
    out.append(text.substr(from, next));
    at = from += next;
  }
  return out.append(text.substr(from));
}

std::string uppercase(std::string_view text) {
  std::string out;
  each_character(text, [&out](char32_t code) { subword::append_utf8(out, upper_case(code)); });
  return out;
}

std::string lowercase(std::string_view text) {
  std::string out;
  each_character(text, [&out](char32_t code) { subword::append_utf8(out, lower_case(code)); });
  return out;
}

std::string titlecase(std::string_view text) {
  std::string out;
  bool inside = false;
  each_character(text, [&](char32_t code) {
    subword::append_utf8(out, inside ? lower_case(code) : upper_case(code));
    inside = is_cased(code);
  });
  return out;
}

std::string capitalized(std::string_view text) {
  if (text.empty()) return {};
  const std::size_t first = subword::character_at(text, 0).bytes;
  return uppercase(text.substr(0, first)) + lowercase(text.substr(first));
}

std::string titlecase_words(std::string_view text) {
  std::string out;
  bool begins = true;
  each_character(text, [&](char32_t code) {
    const bool between = code == '-' || code == '(' || code == '{' || code == '[' || code == '<' || is_blank(code);
    subword::append_utf8(out, begins && !between ? upper_case(code) : lower_case(code));
    begins = between;
  });
  return out;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

void append_repr(std::string& to, std::string_view text) {
  const char quote = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
  to += quote;
  each_character(text, [&](char32_t code) {
    if (code == '\\' || code == static_cast<unsigned char>(quote)) {
      to += '\\';
      to += static_cast<char>(code);
    } else if (code == '\n' || code == '\r' || code == '\t') {
      to += code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t";
    } else if (is_printable(code)) {
      subword::append_utf8(to, code);
    } else {
      const auto number = static_cast<std::uint32_t>(code);
      to += number < 0x100     ? fmt::format("\\x{:02x}", number)
            : number < 0x10000 ? fmt::format("\\u{:04x}", number)
                               : fmt::format("\\U{:08x}", number);
    }
  });
  to += quote;
}

std::string unescaped(std::string_view literal) {
  std::string out;
  for (std::size_t at = 0; at < literal.size();) {
    const char c = literal[at++];
    if (c != '\\' || at >= literal.size()) {
      out += c;
    } else {
      append_escape(out, literal, at);
    }
  }
  return out;
}

}  // namespace mlx::infer::jinja
