// The strict reader of one TOML table: every getter says what it expected and where it looked.

#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/toml.h"

namespace mlx {
namespace {

using Kind = TomlNode::Kind;

std::string shown(const TomlNode& node) {
  constexpr std::size_t kLongest = 60;
  switch (node.kind) {
    case Kind::kTable:
      return "a table";
    case Kind::kArray:
      return "an array";
    case Kind::kString:
      return node.text.size() <= kLongest ? fmt::format("\"{}\"", node.text)
                                          : fmt::format("\"{}…\"", node.text.substr(0, kLongest));
    case Kind::kInteger:
      return fmt::to_string(node.integer);
    case Kind::kFloat:
      return fmt::format("{:#}", node.number);  // 1.0 is no 1
    case Kind::kBoolean:
      return node.boolean ? "true" : "false";
    case Kind::kOther:
      break;
  }
  return node.text;
}

template <typename T>
std::string range_text(std::string_view what, T min, T max) {
  using Limits = std::numeric_limits<T>;
  const bool low = min > Limits::lowest(), high = max < Limits::max();
  if (low && high) return fmt::format("{} from {} to {}", what, min, max);
  if (low) return fmt::format("{} of at least {}", what, min);
  if (high) return fmt::format("{} of at most {}", what, max);
  return std::string(what);
}

bool is_integer_in(const TomlNode& node, std::int64_t min, std::int64_t max) {
  return node.kind == Kind::kInteger && node.integer >= min && node.integer <= max;
}

bool is_number_in(const TomlNode& node, double min, double max) {  // NaN is in no range
  return (node.kind == Kind::kFloat || node.kind == Kind::kInteger) && node.number >= min && node.number <= max;
}

// "[model]" and "conv" make "[model.conv]".
std::string section(const std::string& where, std::string_view key) {
  if (where.empty()) return fmt::format("[{}]", key);
  if (where.starts_with("[[") || !where.ends_with(']')) return fmt::format("{} {}", where, key);
  return fmt::format("{}.{}]", where.substr(0, where.size() - 1), key);
}

// "[model]", "layers" and 2 make "[[model.layers]] #3": people count from one.
std::string numbered_section(const std::string& where, std::string_view key, std::size_t index) {
  const std::string name = section(where, key);
  return name.starts_with("[[") || !name.ends_with(']') ? fmt::format("{} #{}", name, index + 1)
                                                        : fmt::format("[{}] #{}", name, index + 1);
}

std::string place_of(const std::string& file, const TomlNode& node) {
  if (!node.origin.empty()) return node.origin;
  return node.line > 0 ? fmt::format("{}:{}", file, node.line) : file;
}

}  // namespace

TomlReader::TomlReader(const TomlNode& table, std::string file, std::string where)
    : table_(std::make_shared<TomlNode>(table)), file_(std::move(file)), where_(std::move(where)) {
  if (table_->kind != Kind::kTable) {
    fail(ErrorKind::kUsage, "{}: {}: expected a table, got {}", place_of(file_, *table_), where_, shown(*table_));
  }
  for (const auto& [name, value] : table_->members) by_key_.emplace(name, &value);
}

const TomlNode* TomlReader::value_of(std::string_view key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : found->second;
}

bool TomlReader::has(std::string_view key) const {
  const bool there = value_of(key) != nullptr;
  if (!there) asked_.emplace(key);
  return there;
}

bool TomlReader::is_array(std::string_view key) const {
  const TomlNode* const value = value_of(key);
  return value && value->kind == Kind::kArray;
}

bool TomlReader::is_text(std::string_view key) const {
  const TomlNode* const value = value_of(key);
  return value && value->kind == Kind::kString;
}

int TomlReader::line(std::string_view key) const {
  const TomlNode* const value = value_of(key);
  return value ? value->line : table_->line;
}

std::string TomlReader::place(std::string_view key) const {
  const TomlNode* const value = value_of(key);
  return place_of(file_, value ? *value : *table_);
}

const TomlNode* TomlReader::find(std::string_view key) {
  known_.emplace(key);
  return value_of(key);
}

const TomlNode& TomlReader::require(std::string_view key, std::string_view expected) {
  if (const TomlNode* const node = find(key)) return *node;
  // A key that nobody knows and that looks like this one is what was meant.
  for (const auto& [name, value] : table_->members) {
    const bool asked = known_.contains(name);
    if (!asked && !did_you_mean(name, {std::string(key)}).empty()) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("{}: {}{}unknown key '{}'", place(name), where_, where_.empty() ? "" : " ", name),
                  fmt::format("did you mean '{}'?", key));
    }
  }
  fail(ErrorKind::kUsage, "{}: {}{}needs the key '{}' ({})", file_, where_, where_.empty() ? "" : " ", key, expected);
}

void TomlReader::wrong(const TomlNode& node, std::string_view key, std::string_view expected) const {
  const std::string at = node.line > 0 && node.origin.empty() ? place_of(file_, node) : place(key);
  fail(ErrorKind::kUsage, "{}: {}{}{}: expected {}, got {}", at, where_, where_.empty() ? "" : " ", key, expected,
       shown(node));
}

void TomlReader::fail_at(std::string_view key, std::string_view why) const {
  fail(ErrorKind::kUsage, "{}: {}{}{}: {}", place(key), where_, where_.empty() ? "" : " ", key, why);
}

std::string TomlReader::string(std::string_view key) {
  const TomlNode& node = require(key, "a string");
  if (node.kind != Kind::kString) wrong(node, key, "a string");
  return node.text;
}

std::string TomlReader::string(std::string_view key, std::string_view fallback) {
  return find(key) == nullptr ? std::string(fallback) : string(key);
}

std::string TomlReader::one_of(std::string_view key, const std::vector<std::string>& allowed,
                               std::optional<std::string> fallback) {
  if (fallback && find(key) == nullptr) return *fallback;
  const std::string expected = fmt::format("one of \"{}\"", fmt::join(allowed, "\", \""));
  const TomlNode& node = require(key, expected);
  if (node.kind == Kind::kString && std::ranges::find(allowed, node.text) != allowed.end()) return node.text;
  try {
    wrong(node, key, expected);
  } catch (Error& error) {
    const std::string close = node.kind == Kind::kString ? did_you_mean(node.text, allowed) : "";
    if (!close.empty()) error.hint = fmt::format("did you mean \"{}\"?", close);
    throw;
  }
}

std::int64_t TomlReader::integer(std::string_view key, std::int64_t min, std::int64_t max,
                                 std::optional<std::int64_t> fallback) {
  if (fallback && find(key) == nullptr) return *fallback;
  const std::string expected = range_text("an integer", min, max);
  const TomlNode& node = require(key, expected);
  if (!is_integer_in(node, min, max)) wrong(node, key, expected);
  return node.integer;
}

double TomlReader::number(std::string_view key, double min, double max, std::optional<double> fallback) {
  if (fallback && find(key) == nullptr) return *fallback;
  const std::string expected = range_text("a number", min, max);
  const TomlNode& node = require(key, expected);
  if (!is_number_in(node, min, max)) wrong(node, key, expected);
  return node.number;
}

bool TomlReader::boolean(std::string_view key, std::optional<bool> fallback) {
  if (fallback && find(key) == nullptr) return *fallback;
  const TomlNode& node = require(key, "true or false");
  if (node.kind != Kind::kBoolean) wrong(node, key, "true or false");
  return node.boolean;
}

std::vector<std::string> TomlReader::strings(std::string_view key, std::optional<std::vector<std::string>> fallback) {
  if (fallback && find(key) == nullptr) return *fallback;
  constexpr std::string_view kExpected = "an array of strings";
  const TomlNode& node = require(key, kExpected);
  if (node.kind != Kind::kArray) wrong(node, key, kExpected);
  std::vector<std::string> out;
  for (const TomlNode& item : node.items) {
    if (item.kind != Kind::kString) wrong(item, key, kExpected);
    out.push_back(item.text);
  }
  return out;
}

std::vector<std::int64_t> TomlReader::integers(std::string_view key, std::int64_t min, std::int64_t max,
                                               std::optional<std::vector<std::int64_t>> fallback) {
  if (fallback && find(key) == nullptr) return *fallback;
  const std::string expected = "an array, each " + range_text("an integer", min, max);
  const TomlNode& node = require(key, expected);
  if (node.kind != Kind::kArray) wrong(node, key, expected);
  std::vector<std::int64_t> out;
  for (const TomlNode& item : node.items) {
    if (!is_integer_in(item, min, max)) wrong(item, key, expected);
    out.push_back(item.integer);
  }
  return out;
}

std::vector<double> TomlReader::numbers(std::string_view key, double min, double max,
                                        std::optional<std::vector<double>> fallback) {
  if (fallback && find(key) == nullptr) return *fallback;
  const std::string expected = "an array, each " + range_text("a number", min, max);
  const TomlNode& node = require(key, expected);
  if (node.kind != Kind::kArray) wrong(node, key, expected);
  std::vector<double> out;
  for (const TomlNode& item : node.items) {
    if (!is_number_in(item, min, max)) wrong(item, key, expected);
    out.push_back(item.number);
  }
  return out;
}

TomlReader TomlReader::table(std::string_view key, bool required) {
  if (!required && find(key) == nullptr) return TomlReader(TomlNode{}, file_, section(where_, key));
  const TomlNode& node = require(key, "a table");
  if (node.kind != Kind::kTable) wrong(node, key, "a table");
  return TomlReader(node, file_, section(where_, key));
}

std::vector<TomlReader> TomlReader::tables(std::string_view key, bool required) {
  std::vector<TomlReader> out;
  if (!required && find(key) == nullptr) return out;
  const TomlNode& node = require(key, "an array of tables");
  if (node.kind != Kind::kArray) wrong(node, key, "an array of tables");
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    if (node.items[i].kind != Kind::kTable) wrong(node.items[i], key, "an array of tables");
    out.emplace_back(node.items[i], file_, numbered_section(where_, key, i));
  }
  return out;
}

std::vector<std::string> TomlReader::keys() const {
  std::vector<std::string> out;
  for (const auto& [name, value] : table_->members) out.push_back(name);
  return out;
}

void TomlReader::finish() const {
  for (const auto& [name, value] : table_->members) {
    if (known_.contains(name)) continue;
    std::set<std::string, std::less<>> possible = known_;
    possible.insert(asked_.begin(), asked_.end());
    const std::vector<std::string> words(possible.begin(), possible.end());
    const std::string close = did_you_mean(name, words);
    throw Error(
        ErrorKind::kUsage,
        fmt::format("{}: {}{}unknown key '{}'", place_of(file_, value), where_, where_.empty() ? "" : " ", name),
        close.empty() ? fmt::format("known keys: {}", fmt::join(words, ", "))
                      : fmt::format("did you mean '{}'?", close));
  }
}

}  // namespace mlx
