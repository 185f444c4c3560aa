// One cursor over the text; one flag says whether a comma is due. Numbers of few digits take a short way.
#include "serve/json_reader.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <set>

#include "base/bytes.h"
#include "base/error.h"

namespace mlx::serve {
namespace {

constexpr int kMaxDepth = 64;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Infinity for what is too large, 0 for what is too small: from_chars calls both out of range, and a negative exponent
// tells which it is.
double double_of(std::string_view number) {
  double out = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), out);
  if (error != std::errc::result_out_of_range) return out;
  const std::size_t exponent = number.find_first_of("eE");
  const bool tiny = exponent != std::string_view::npos && number.substr(exponent + 1).starts_with('-');
  return tiny ? 0.0 : HUGE_VAL;
}

void append_utf8(std::string& to, std::uint32_t code) {
  if (code < 0x80) {
    to += static_cast<char>(code);
  } else if (code < 0x800) {
    to += static_cast<char>(0xc0 | (code >> 6));
    to += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    to += static_cast<char>(0xe0 | (code >> 12));
    to += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    to += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    to += static_cast<char>(0xf0 | (code >> 18));
    to += static_cast<char>(0x80 | ((code >> 12) & 0x3f));
    to += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    to += static_cast<char>(0x80 | (code & 0x3f));
  }
}

}  // namespace

void JsonReader::fail_here(std::string_view why) const {
  fail(ErrorKind::kCorrupt, "body, offset {}: {}", at_, why);
}

char JsonReader::peek() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r') return c;
    ++at_;
  }
  return 0;
}

void JsonReader::expect(char c, const char* what) {
  if (peek() != c || at_ >= text_.size()) fail_here(fmt::format("expected {}", what));
  ++at_;
}

void JsonReader::object(const std::function<void(const std::string& key)>& read_value) {
  std::set<std::string> seen;
  std::string key;
  for (begin_object(); next_key(key);) {
    if (!seen.insert(key).second) fail_here(fmt::format("'{}' is given twice", key));
    read_value(key);
  }
}

void JsonReader::begin_object() {
  expect('{', "an object");
  fresh_ = true;
}

void JsonReader::begin_array() {
  expect('[', "an array");
  fresh_ = true;
}

bool JsonReader::next(char close, const char* what) {
  if (peek() == close) {
    ++at_;
    fresh_ = false;
    return false;
  }
  if (!fresh_) {
    expect(',', what);
    if (peek() == close) fail_here("a comma with nothing behind it");
  }
  fresh_ = false;
  return true;
}

bool JsonReader::next_element() {
  return next(']', "',' or ']'");
}

bool JsonReader::next_key(std::string& key) {
  if (!next('}', "',' or '}'")) return false;
  if (peek() != '"') fail_here("expected a key in quotes");
  key = string();
  expect(':', "':'");
  return true;
}

std::uint32_t JsonReader::hex4() {
  if (text_.size() - at_ < 4) fail_here("a \\u escape is cut short");
  std::uint32_t code = 0;
  const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + at_ + 4, code, 16);
  if (error != std::errc() || end != text_.data() + at_ + 4) fail_here("a \\u escape needs four hex digits");
  at_ += 4;
  return code;
}

void JsonReader::append_escape(std::string& to) {
  if (at_ >= text_.size()) fail_here("a string without an end");
  const char c = text_[at_++];
  constexpr std::string_view kFrom = "\"\\/bfnrt", kTo = "\"\\/\b\f\n\r\t";
  if (const std::size_t i = kFrom.find(c); i != std::string_view::npos) {
    to += kTo[i];
    return;
  }
  if (c != 'u') fail_here("an unknown escape");
  std::uint32_t code = hex4();
  if (code >= 0xd800 && code < 0xdc00 && text_.substr(at_, 2) == "\\u") {
    at_ += 2;
    const std::uint32_t low = hex4();
    if (low < 0xdc00 || low > 0xdfff) fail_here("half of a surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  if (code >= 0xd800 && code < 0xe000) fail_here("half of a surrogate pair");
  append_utf8(to, code);
}

std::string JsonReader::string() {
  expect('"', "a string");
  std::string out;
  for (;;) {
    if (at_ >= text_.size()) fail_here("a string without an end");
    const char c = text_[at_++];
    if (c == '"') break;
    if (static_cast<unsigned char>(c) < 0x20) fail_here("a control character in a string");
    if (c == '\\') {
      append_escape(out);
    } else {
      out += c;
    }
  }
  if (!is_utf8(out)) fail_here("a string that is not UTF-8");
  return out;
}

// The characters of one number, checked against the grammar of JSON, which is narrower than from_chars's.
std::string_view JsonReader::number_text() {
  peek();
  std::size_t i = at_;
  const auto digits = [&] {
    const std::size_t first = i;
    while (i < text_.size() && is_digit(text_[i])) ++i;
    return i - first;
  };
  const auto is = [&](char c) { return i < text_.size() && text_[i] == c; };
  if (is('-')) ++i;
  const bool zero = is('0');
  const std::size_t whole = digits();
  if (whole == 0 || (zero && whole > 1)) fail_here("expected a number");
  if (is('.')) {
    ++i;
    if (digits() == 0) fail_here("a number without digits behind its point");
  }
  if (is('e') || is('E')) {
    ++i;
    if (is('+') || is('-')) ++i;
    if (digits() == 0) fail_here("a number without digits in its exponent");
  }
  const std::string_view found = text_.substr(at_, i - at_);
  at_ = i;
  return found;
}

std::int64_t JsonReader::integer() {
  const std::size_t start = at_;
  const std::string_view digits = number_text();
  std::int64_t out = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
  if (error != std::errc() || end != digits.data() + digits.size()) {
    at_ = start;
    fail_here("expected an integer");
  }
  return out;
}

double JsonReader::real() {
  const std::size_t start = offset();
  const double out = double_of(number_text());
  if (!std::isfinite(out)) {
    at_ = start;
    fail_here("a number outside of the range of FP64");
  }
  return out;
}

float JsonReader::number() {
  // Up to seven digits and nothing else: what pixels are.
  std::size_t i = at_;
  std::uint32_t value = 0;
  while (i < text_.size() && is_digit(text_[i])) {
    value = value * 10 + static_cast<std::uint32_t>(text_[i] - '0');
    if (++i - at_ > 7) break;
  }
  const std::size_t digits = i - at_;
  if (digits > 0 && digits <= 7 && (text_[at_] != '0' || digits == 1) && i < text_.size() && text_[i] != '.' &&
      text_[i] != 'e' && text_[i] != 'E') {
    at_ = i;
    return static_cast<float>(value);
  }
  const std::size_t start = at_;
  const float out = static_cast<float>(double_of(number_text()));
  if (!std::isfinite(out)) {
    at_ = start;
    fail_here("a number outside of the range of FP32");
  }
  return out;
}

void JsonReader::numbers_at(std::vector<float>& to, std::vector<std::int64_t>& lengths, std::size_t depth,
                            std::size_t& leaf) {
  if (depth >= 8) fail_here("data is nested more than 8 deep");
  begin_array();
  std::int64_t length = 0;
  if (lengths.size() == depth) lengths.push_back(-1);
  while (next_element()) {
    ++length;
    if (peek() == '[') {
      if (leaf == depth) fail_here("data mixes numbers and arrays");
      numbers_at(to, lengths, depth + 1, leaf);
    } else {
      if (leaf == std::string_view::npos) leaf = depth;
      if (leaf != depth) fail_here("data mixes numbers and arrays");
      to.push_back(number());
    }
  }
  if (lengths[depth] < 0) lengths[depth] = length;
  if (lengths[depth] != length) fail_here("arrays of one level of data differ in length");
}

std::vector<std::int64_t> JsonReader::numbers(std::vector<float>& to) {
  std::vector<std::int64_t> lengths;
  std::size_t leaf = std::string_view::npos;
  numbers_at(to, lengths, 0, leaf);
  return lengths;
}

bool JsonReader::boolean() {
  const bool value = peek() == 't';
  const std::string_view word = value ? "true" : "false";
  if (text_.substr(at_, word.size()) != word) fail_here("expected true or false");
  at_ += word.size();
  return value;
}

void JsonReader::skip() {
  skip_value(0);
}

std::string_view JsonReader::raw() {
  const std::size_t start = offset();
  skip();
  return text_.substr(start, at_ - start);
}

void JsonReader::skip_value(int depth) {
  if (depth > kMaxDepth) fail_here("nested too deeply");
  std::string key;
  switch (peek()) {
    case '{':
      for (begin_object(); next_key(key);) skip_value(depth + 1);
      return;
    case '[':
      for (begin_array(); next_element();) skip_value(depth + 1);
      return;
    case '"':
      string();
      return;
    case 't':
    case 'f':
      boolean();
      return;
    case 'n':
      if (text_.substr(at_, 4) != "null") fail_here("expected a value");
      at_ += 4;
      return;
    default:
      number_text();
  }
}

void JsonReader::end() {
  peek();
  if (at_ != text_.size()) fail_here("more than one JSON value");
}

void append_json_string(std::string& to, std::string_view text) {
  const bool valid = is_utf8(text);
  to += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      to += '\\';
      to += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      fmt::format_to(std::back_inserter(to), "\\u{:04x}", byte);
    } else {
      to += byte >= 0x80 && !valid ? '?' : c;
    }
  }
  to += '"';
}

}  // namespace mlx::serve
