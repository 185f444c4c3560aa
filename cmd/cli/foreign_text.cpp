// One scan over the characters of a text; callers differ in how they treat those that a terminal acts on.
#include "cmd/cli/foreign_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

#include "base/bytes.h"
#include "base/json.h"

namespace mlx::cmd {
namespace {

constexpr char kEscape = '\x1b';

struct Character {
  std::string_view bytes;
  std::uint32_t code = 0;
  bool valid = false;  // UTF-8
};

Character first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t lead = byte(0);
  const std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (length == 1) return {text.substr(0, 1), lead, true};
  if (length > text.size() || !is_utf8(text.substr(0, length))) return {text.substr(0, 1), lead, false};
  std::uint32_t code = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) code = code << 6 | (byte(i) & 0x3F);
  return {text.substr(0, length), code, true};
}

// Unicode 15's categories Cf, Zl and Zp: characters that reverse, join or break text, or are invisible. Without
// the signs of Arabic, Syriac and Kaithi that are of Cf and seen.
constexpr std::pair<std::uint32_t, std::uint32_t> kUnseen[] = {
    {0x00AD, 0x00AD}, {0x061C, 0x061C}, {0x180E, 0x180E},   {0x200B, 0x200F},   {0x2028, 0x202E},   {0x2060, 0x206F},
    {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF},
};

// A terminal would act on it, or show other text than is there.
bool is_acted_on(const Character& one) {
  const std::uint32_t c = one.code;
  if (!one.valid || c < 0x20 || (c >= 0x7F && c < 0xA0)) return true;
  return std::ranges::any_of(kUnseen, [&](const auto& range) { return c >= range.first && c <= range.second; });
}

bool is_plain(char c) {
  return c >= 0x20 && c < 0x7F;
}

// `replace(rest, out)` takes what it appends an answer to from the front of `rest`.
template <typename Replace>
std::string replaced(std::string_view text, const Replace& replace) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto end = std::ranges::find_if_not(text, is_plain);
    const auto plain = static_cast<std::size_t>(end - text.begin());
    out += text.substr(0, plain);
    text.remove_prefix(plain);
    if (!text.empty()) text.remove_prefix(replace(text, out));
  }
  return out;
}

std::size_t put_visible(std::string_view text, std::string& out) {
  const Character one = first_of(text);
  if (!is_acted_on(one)) {
    out += one.bytes;
  } else {
    for (const char c : one.bytes) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return one.bytes.size();
}

const std::string& secret() {
  static const std::string number = [] {
    std::random_device random;
    return fmt::format("{:08x}{:08x}", random(), random());
  }();
  return number;
}

// The length of the mark that `text` begins with, 0 where it begins with none; `code` is its colour.
std::size_t take_mark(std::string_view text, std::string_view& code) {
  if (text.front() != kEscape || !text.substr(1).starts_with(secret())) return 0;
  const std::size_t begin = 1 + secret().size(), end = text.find('m', begin);
  if (end == std::string_view::npos) return 0;
  code = text.substr(begin, end - begin);
  return end + 1;
}

}  // namespace

std::string printable(std::string_view text) {
  return replaced(text, put_visible);
}

std::string painted(const char* code, std::string_view text) {
  return fmt::format("{0}{1}{2}m{3}{0}{1}0m", kEscape, secret(), code, text);
}

std::string shown(std::string_view text) {
  return replaced(text, [](std::string_view rest, std::string& out) {
    std::string_view code;
    if (const std::size_t length = take_mark(rest, code); length > 0) {
      out += fmt::format("{}[{}m", kEscape, code);
      return length;
    }
    if (rest.front() != '\n' && rest.front() != '\t') return put_visible(rest, out);
    out += rest.front();
    return std::size_t{1};
  });
}

std::string json_text(const Json& document, int indent) {
  const std::string text = document.dump(indent, ' ', false, Json::error_handler_t::replace);
  return replaced(text, [](std::string_view rest, std::string& out) {
    const Character one = first_of(rest);
    if (one.code < 0x20 || !is_acted_on(one)) {
      out += one.bytes;  // what is below 0x20 is the document's own
    } else if (one.code < 0x10000) {
      out += fmt::format("\\u{:04x}", one.code);
    } else {  // as two surrogates
      const std::uint32_t rest_of = one.code - 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest_of >> 10), 0xDC00 + (rest_of & 0x3FF));
    }
    return one.bytes.size();
  });
}

}  // namespace mlx::cmd
