// One key of a configuration from the command line, as if the file said it.

#include <algorithm>

#include "base/error.h"
#include "base/toml.h"

namespace mlx {
namespace {

constexpr const char* kTyped = "what was typed";

TomlNode value_of(std::string_view text) {
  TomlNode string;
  string.kind = TomlNode::Kind::kString;
  string.text = text;
  try {
    TomlNode parsed = parse_toml(fmt::format("value = {}", text), kTyped);
    const bool one = parsed.members.size() == 1 && parsed.members[0].first == "value";
    return one ? std::move(parsed.members[0].second) : string;
  } catch (const Error&) {
    return string;
  }
}

void mark(TomlNode& node, const std::string& origin) {
  node.line = 0;
  node.origin = origin;
  for (TomlNode::Member& member : node.members) mark(member.second, origin);
  for (TomlNode& item : node.items) mark(item, origin);
}

std::vector<std::string> path_of(std::string_view key, const std::string& origin) {
  std::vector<std::string> path;
  try {
    const TomlNode parsed = parse_toml(fmt::format("{} = 0", key), kTyped);
    for (const TomlNode* at = &parsed; at->members.size() == 1; at = &at->members[0].second)
      path.push_back(at->members[0].first);
  } catch (const Error&) {
    path.clear();
  }
  if (path.empty()) fail(ErrorKind::kUsage, "{}: expected a key, dotted as in train.epochs, got '{}'", origin, key);
  return path;
}

TomlNode& member_of(TomlNode& table, const std::string& name, const std::string& origin) {
  const auto found = std::ranges::find(table.members, name, &TomlNode::Member::first);
  if (found != table.members.end()) return found->second;
  table.members.push_back({name, {}});
  mark(table.members.back().second, origin);
  return table.members.back().second;
}

}  // namespace

void set_toml(TomlNode& root, std::string_view assignment, std::string_view option) {
  const std::string origin = fmt::format("{} {}", option, assignment);
  const std::size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw Error(ErrorKind::kUsage, fmt::format("{}: expected KEY=VALUE", origin),
                fmt::format("like {} train.epochs=20", option));
  }
  const std::vector<std::string> path = path_of(assignment.substr(0, equals), origin);
  TomlNode* at = &root;
  for (const std::string& name : path) {
    if (at->kind != TomlNode::Kind::kTable)
      fail(ErrorKind::kUsage, "{}: the part before '{}' is no table", origin, name);
    at = &member_of(*at, name, origin);
  }
  *at = value_of(assignment.substr(equals + 1));
  mark(*at, origin);
}

}  // namespace mlx
