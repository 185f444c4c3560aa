// JSON through nlohmann's parser, and a canonical writer of our own: nlohmann's number printing (Grisu2) is not always
// the shortest, and its sorted type would copy every value.

#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"

namespace mlx {
namespace {

constexpr int kMaxDepth = 128;

struct Position {
  std::size_t line = 1, column = 1;
};

// Where the byte at `offset` stands; columns count bytes.
Position position_of(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const std::size_t newline = before.rfind('\n');
  return {1 + static_cast<std::size_t>(std::ranges::count(before, '\n')),
          1 + (newline == std::string_view::npos ? before.size() : before.size() - newline - 1)};
}

[[noreturn]] void fail_at(std::string_view text, std::size_t offset, std::string_view what, std::string_view why) {
  const Position at = position_of(text, offset);
  fail(ErrorKind::kCorrupt, "{}: line {}, column {}: {}", what, at.line, at.column, why);
}

// Before parsing, because values are destroyed recursively: hostile nesting would overflow the stack.
void check_depth(std::string_view text, std::string_view what) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) fail_at(text, i, what, fmt::format("nested deeper than {} levels", kMaxDepth));
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

// nlohmann: "[json.exception.parse_error.101] parse error at line 1, column 2: WHY; last read: …" — what is left is
// WHY.
std::string_view reason_in(std::string_view message) {
  for (const std::string_view before : {"column ", "byte "}) {
    const std::size_t at = message.find(before);
    if (at == std::string_view::npos) continue;
    const std::size_t colon = message.find(": ", at);
    if (colon != std::string_view::npos) return message.substr(colon + 2);
  }
  const std::size_t bracket = message.find("] ");
  return bracket == std::string_view::npos ? message : message.substr(bracket + 2);
}

void write_string(const std::string& text, std::string& out) {
  if (!is_utf8(text)) fail(ErrorKind::kCorrupt, "a string is not valid UTF-8 and cannot be written as JSON");
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) >= 0x20) {
      out += c;
    } else {
      constexpr std::string_view kShort = "btn?fr";  // 0x08 to 0x0D; 0x0B has no short form
      const unsigned code = static_cast<unsigned char>(c);
      if (code >= 0x08 && code <= 0x0D && code != 0x0B) {
        out += '\\';
        out += kShort[code - 0x08];
      } else {
        out += fmt::format("\\u{:04x}", code);
      }
    }
  }
  out += '"';
}

void write_number(double value, std::string& out) {
  if (!std::isfinite(value)) fail(ErrorKind::kCorrupt, "JSON cannot hold the number {}", value);
  char buffer[32];
  const auto end = std::to_chars(std::begin(buffer), std::end(buffer), value).ptr;
  const std::string_view digits(buffer, static_cast<std::size_t>(end - buffer));
  out += digits;
  // Stays a floating-point number when it is read back.
  if (digits.find_first_of(".e") == std::string_view::npos) out += ".0";
}

void write(const Json& value, std::string& out, int depth) {
  if (depth > kMaxDepth) fail(ErrorKind::kCorrupt, "JSON nested deeper than {} levels", kMaxDepth);
  switch (value.type()) {
    case Json::value_t::null:
      out += "null";
      return;
    case Json::value_t::boolean:
      out += value.get<bool>() ? "true" : "false";
      return;
    case Json::value_t::number_integer:
      out += std::to_string(value.get<std::int64_t>());
      return;
    case Json::value_t::number_unsigned:
      out += std::to_string(value.get<std::uint64_t>());
      return;
    case Json::value_t::number_float:
      write_number(value.get<double>(), out);
      return;
    case Json::value_t::string:
      write_string(value.get_ref<const std::string&>(), out);
      return;
    case Json::value_t::array: {
      out += '[';
      for (std::size_t i = 0; i < value.size(); ++i) {
        if (i > 0) out += ',';
        write(value[i], out, depth + 1);
      }
      out += ']';
      return;
    }
    case Json::value_t::object: {
      std::vector<std::pair<const std::string*, const Json*>> members;
      members.reserve(value.size());
      for (const auto& [key, member] : value.get_ref<const Json::object_t&>()) members.emplace_back(&key, &member);
      std::ranges::sort(members, [](const auto& a, const auto& b) { return *a.first < *b.first; });
      out += '{';
      for (std::size_t i = 0; i < members.size(); ++i) {
        if (i > 0) out += ',';
        write_string(*members[i].first, out);
        out += ':';
        write(*members[i].second, out, depth + 1);
      }
      out += '}';
      return;
    }
    case Json::value_t::binary:
    case Json::value_t::discarded:
      break;
  }
  fail(ErrorKind::kCorrupt, "a {} value cannot be written as JSON", value.type_name());
}

const Json& member(const Json& object, std::string_view key, std::string_view what) {
  if (!object.is_object()) fail(ErrorKind::kCorrupt, "{}: expected an object, got {}", what, object.type_name());
  const auto found = object.find(std::string(key));
  if (found == object.end()) fail(ErrorKind::kCorrupt, "{}: the key '{}' is missing", what, key);
  return *found;
}

[[noreturn]] void wrong_type(const Json& got, std::string_view key, std::string_view what, std::string_view expected) {
  fail(ErrorKind::kCorrupt, "{}: '{}': expected {}, got {}", what, key, expected, got.type_name());
}

// Builds the document, and refuses a key that occurs twice in one object: readers differ in which of the two they take.
// Members are appended: nlohmann's own builder looks for each among all before it, which takes minutes for a few
// hundred thousand.
class Builder {
 public:
  Builder(Json& to, std::string_view what) : document_(to), what_(what) {}

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(Json::number_integer_t value) { return put(value); }
  bool number_unsigned(Json::number_unsigned_t value) { return put(value); }
  bool number_float(Json::number_float_t value, const std::string& /*text*/) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(Json::binary_t& value) { return put(std::move(value)); }
  bool start_array(std::size_t /*size*/) { return open(Json::array()); }
  bool end_array() { return close(); }
  bool start_object(std::size_t /*size*/) {
    keys_.emplace_back();
    return open(Json::object());
  }
  bool key(std::string& text) {
    if (!keys_.back().insert(text).second) fail(ErrorKind::kCorrupt, "{}: the key '{}' occurs twice", what_, text);
    key_ = std::move(text);
    return true;
  }
  bool end_object() {
    keys_.pop_back();
    return close();
  }
  template <class Exception>
  bool parse_error(std::size_t /*at*/, const std::string& /*last*/, const Exception& error) {
    throw error;
  }

 private:
  Json& add(Json value) {
    if (open_.empty()) return document_ = std::move(value);
    Json& in = *open_.back();
    if (in.is_array()) {
      in.push_back(std::move(value));
      return in.back();
    }
    return in.get_ref<Json::object_t&>().emplace_back(std::move(key_), std::move(value)).second;
  }
  bool put(Json value) {
    add(std::move(value));
    return true;
  }
  bool open(Json value) {
    open_.push_back(&add(std::move(value)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json& document_;
  std::string_view what_;
  std::string key_;                                    // of the value that comes next
  std::vector<Json*> open_;                            // each within the one before it, as its last value
  std::vector<std::unordered_set<std::string>> keys_;  // of the objects that are open
};

}  // namespace

Json parse_json(std::string_view text, std::string_view what) {
  check_depth(text, what);
  try {
    Json document;
    Builder handler(document, what);
    Json::sax_parse(text, &handler);
    return document;
  } catch (const Json::parse_error& error) {
    fail_at(text, error.byte > 0 ? error.byte - 1 : 0, what, reason_in(error.what()));
  } catch (const Json::exception& error) {  // a number beyond the range of double
    fail(ErrorKind::kCorrupt, "{}: {}", what, reason_in(error.what()));
  }
}

std::string canonical(const Json& value) {
  std::string out;
  write(value, out, 0);
  return out;
}

std::string json_string(const Json& object, std::string_view key, std::string_view what) {
  const Json& value = member(object, key, what);
  if (!value.is_string()) wrong_type(value, key, what, "a string");
  return value.get<std::string>();
}

std::int64_t json_int(const Json& object, std::string_view key, std::string_view what) {
  const Json& value = member(object, key, what);
  if (!value.is_number_integer()) wrong_type(value, key, what, "an integer");
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) {
    fail(ErrorKind::kCorrupt, "{}: '{}': {} does not fit in 64 bits with a sign", what, key,
         value.get<std::uint64_t>());
  }
  return value.get<std::int64_t>();
}

double json_number(const Json& object, std::string_view key, std::string_view what) {
  const Json& value = member(object, key, what);
  if (!value.is_number()) wrong_type(value, key, what, "a number");
  return value.get<double>();
}

bool json_bool(const Json& object, std::string_view key, std::string_view what) {
  const Json& value = member(object, key, what);
  if (!value.is_boolean()) wrong_type(value, key, what, "true or false");
  return value.get<bool>();
}

const Json& json_array(const Json& object, std::string_view key, std::string_view what) {
  const Json& value = member(object, key, what);
  if (!value.is_array()) wrong_type(value, key, what, "an array");
  return value;
}

const Json& json_object(const Json& object, std::string_view key, std::string_view what) {
  const Json& value = member(object, key, what);
  if (!value.is_object()) wrong_type(value, key, what, "an object");
  return value;
}

}  // namespace mlx
