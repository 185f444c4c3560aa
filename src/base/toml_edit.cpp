// Line by line: headers and keys are recognised by parsing the single line, so that any spelling of them is known; what
// spans several lines is caught by reading the result back.
#include "base/toml_edit.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "base/toml.h"

namespace mlx {
namespace {

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
    lines.push_back(text.substr(at, end - at));
    at = end;
  }
  return lines;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line;
  return text;
}

bool is_header(const std::string& line) {
  return trimmed(line).starts_with('[');
}

bool is_empty_or_comment(const std::string& line) {
  const std::string_view text = trimmed(line);
  return text.empty() || text.starts_with('#');
}

std::optional<TomlNode> parse_line(const std::string& line) {
  try {
    return parse_toml(line, "");
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The header of this very table, however it is spelled: [remotes.origin], [ remotes."origin" ] # comment
bool is_header_of(const std::string& line, const TomlPath& table) {
  if (!is_header(line)) return false;
  const std::optional<TomlNode> parsed = parse_line(line);
  const TomlNode* node = parsed ? &*parsed : nullptr;
  for (const std::string& part : table) {
    if (!node || node->members.size() != 1 || node->members[0].first != part) return false;
    node = &node->members[0].second;
  }
  return node && node->kind == TomlNode::Kind::kTable && node->members.empty();
}

bool is_key(const std::string& line, const std::string& key) {
  if (is_empty_or_comment(line) || is_header(line)) return false;
  const std::optional<TomlNode> parsed = parse_line(line);
  return parsed && parsed->members.size() == 1 && parsed->members[0].first == key;
}

struct Section {
  std::size_t header = 0, end = 0;  // lines: the header's, and the one behind the section's last
};

std::optional<Section> find_section(const std::vector<std::string>& lines, const TomlPath& table) {
  const auto header = std::ranges::find_if(lines, [&](const std::string& line) { return is_header_of(line, table); });
  if (header == lines.end()) return std::nullopt;
  const auto end = std::find_if(header + 1, lines.end(), is_header);
  return Section{static_cast<std::size_t>(header - lines.begin()), static_cast<std::size_t>(end - lines.begin())};
}

std::optional<std::size_t> find_key(const std::vector<std::string>& lines, const Section& section,
                                    const std::string& key) {
  for (std::size_t i = section.header + 1; i < section.end; ++i) {
    if (is_key(lines[i], key)) return i;
  }
  return std::nullopt;
}

// The section's own lines: without the comments and empty lines at its end, which belong to what follows.
std::size_t own_end(const std::vector<std::string>& lines, const Section& section) {
  std::size_t end = section.end;
  while (end > section.header + 1 && is_empty_or_comment(lines[end - 1])) --end;
  return end;
}

void erase_lines(std::vector<std::string>& lines, std::size_t from, std::size_t to) {
  lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(from), lines.begin() + static_cast<std::ptrdiff_t>(to));
}

// What stands behind a value on its line: "   # ask Ann\n". The value itself may hold '#' only inside quotes.
std::string tail_of(const std::string& line, const std::string& key) {
  for (std::size_t at = line.find('#'); at != std::string::npos; at = line.find('#', at + 1)) {
    const std::string before = line.substr(0, at);
    if (!is_key(before, key)) continue;  // inside a string
    const std::size_t end = before.find_last_not_of(" \t");
    return line.substr(end + 1);
  }
  return line.ends_with("\r\n") ? "\r\n" : "\n";
}

void remove_section(std::vector<std::string>& lines, const Section& section) {
  const std::size_t end = own_end(lines, section);
  erase_lines(lines, section.header, end);
  // One empty line is enough between what stood before and what follows.
  const bool empty_follows = section.header < lines.size() && trimmed(lines[section.header]).empty();
  const bool empty_before = section.header == 0 || trimmed(lines[section.header - 1]).empty();
  if (empty_follows && empty_before) erase_lines(lines, section.header, section.header + 1);
  while (!lines.empty() && section.header >= lines.size() && trimmed(lines.back()).empty()) lines.pop_back();
}

Json tree_of(const std::string& text, const std::string& file) {
  return toml_to_json(parse_toml(text, file));
}

// Empty tables mean nothing. They are left out, so that making and removing them is no change.
void drop_empty_tables(Json& node) {
  if (!node.is_object()) return;
  for (auto member = node.begin(); member != node.end();) {
    drop_empty_tables(*member);
    member = member->is_object() && member->empty() ? node.erase(member) : std::next(member);
  }
}

std::string checked(std::string text, Json expected, const std::string& file) {
  Json found;
  try {
    found = tree_of(text, file);
  } catch (const Error&) {
  }
  drop_empty_tables(found);
  drop_empty_tables(expected);
  if (found.dump() != expected.dump()) {
    throw Error(ErrorKind::kConflict, fmt::format("{}: is written in a way that cannot be edited here", file),
                "edit it: [TABLE] on a line, below it KEY = VALUE");
  }
  return text;
}

Json& descend(Json& tree, const TomlPath& table) {
  Json* node = &tree;
  for (const std::string& part : table) node = &(*node)[part];
  return *node;
}

bool has_table(const Json& tree, const TomlPath& table) {
  const Json* node = &tree;
  for (const std::string& part : table) {
    if (!node->is_object() || !node->contains(part)) return false;
    node = &(*node)[part];
  }
  return true;
}

[[noreturn]] void not_a_table(const std::string& file, const TomlPath& table) {
  fail(ErrorKind::kUsage, "{}: [{}] is not a table", file, fmt::join(table, "."));
}

}  // namespace

std::string toml_quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\u{:04X}", static_cast<unsigned>(c));
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + '"';
}

std::string with_toml_key(const std::string& text, const TomlPath& table, const std::string& key,
                          const std::string& value, const std::string& file) {
  Json expected = tree_of(text, file);
  Json& in_table = descend(expected, table);
  if (!in_table.is_object() && !in_table.is_null()) not_a_table(file, table);
  in_table[key] = tree_of("value = " + value + "\n", file)["value"];
  std::vector<std::string> lines = split_lines(text);
  if (!lines.empty() && !lines.back().ends_with('\n')) lines.back() += '\n';
  const std::string line = fmt::format("{} = {}", key, value);
  const std::optional<Section> section = find_section(lines, table);
  if (!section) {
    if (!lines.empty()) lines.emplace_back("\n");
    lines.push_back(fmt::format("[{}]\n", fmt::join(table, ".")));
    lines.push_back(line + "\n");
  } else if (const auto at = find_key(lines, *section, key)) {
    lines[*at] = line + tail_of(lines[*at], key);
  } else {
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(own_end(lines, *section)), line + "\n");
  }
  return checked(joined(lines), std::move(expected), file);
}

std::string without_toml_key(const std::string& text, const TomlPath& table, const std::string& key,
                             const std::string& file) {
  Json expected = tree_of(text, file);
  if (!has_table(expected, table) || !descend(expected, table).contains(key)) return text;
  descend(expected, table).erase(key);
  std::vector<std::string> lines = split_lines(text);
  if (const std::optional<Section> section = find_section(lines, table)) {
    if (const auto at = find_key(lines, *section, key)) {
      erase_lines(lines, *at, *at + 1);
      const Section rest{section->header, section->end - 1};
      if (own_end(lines, rest) == rest.header + 1) remove_section(lines, rest);
    }
  }
  return checked(joined(lines), std::move(expected), file);
}

std::string without_toml_table(const std::string& text, const TomlPath& table, const std::string& file) {
  Json expected = tree_of(text, file);
  if (table.empty() || !has_table(expected, table)) return text;
  descend(expected, TomlPath(table.begin(), table.end() - 1)).erase(table.back());
  std::vector<std::string> lines = split_lines(text);
  while (const std::optional<Section> section = find_section(lines, table)) remove_section(lines, *section);
  return checked(joined(lines), std::move(expected), file);
}

}  // namespace mlx
