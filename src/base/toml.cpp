// Turns toml++'s tree into ours: members in file order, each with its line. The only file that includes toml++.

#include "base/toml.h"

#include <toml++/toml.h>

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "base/json.h"
#include "base/toml_text.h"

namespace mlx {
namespace {

TomlNode convert(const toml::node& from, int line);

TomlNode convert_table(const toml::table& from) {
  struct Member {
    toml::source_position at;
    std::string_view key;
    const toml::node* value;
  };
  std::vector<Member> members;  // toml++ keeps them by name
  for (const auto& [key, value] : from) members.push_back({key.source().begin, key.str(), &value});
  std::ranges::stable_sort(members, [](const Member& a, const Member& b) { return a.at < b.at; });
  TomlNode out;
  for (const Member& member : members) {
    out.members.push_back({std::string(member.key), convert(*member.value, static_cast<int>(member.at.line))});
  }
  return out;
}

TomlNode convert(const toml::node& from, int line) {
  TomlNode out;
  switch (from.type()) {
    case toml::node_type::table:
      out = convert_table(*from.as_table());
      break;
    case toml::node_type::array:
      out.kind = TomlNode::Kind::kArray;
      for (const toml::node& item : *from.as_array()) {
        out.items.push_back(convert(item, static_cast<int>(item.source().begin.line)));
      }
      break;
    case toml::node_type::string:
      out.kind = TomlNode::Kind::kString;
      out.text = from.as_string()->get();
      break;
    case toml::node_type::integer:
      out.kind = TomlNode::Kind::kInteger;
      out.integer = from.as_integer()->get();
      out.number = static_cast<double>(out.integer);
      break;
    case toml::node_type::floating_point:
      out.kind = TomlNode::Kind::kFloat;
      out.number = from.as_floating_point()->get();
      break;
    case toml::node_type::boolean:
      out.kind = TomlNode::Kind::kBoolean;
      out.boolean = from.as_boolean()->get();
      break;
    default: {  // dates and times: kept as text
      out.kind = TomlNode::Kind::kOther;
      std::ostringstream text;
      from.visit([&](const auto& value) {
        if constexpr (toml::is_date<decltype(value)> || toml::is_time<decltype(value)> ||
                      toml::is_date_time<decltype(value)>) {
          text << value.get();
        }
      });
      out.text = text.str();
    }
  }
  out.line = line;
  return out;
}

}  // namespace

TomlNode parse_toml(std::string_view text, const std::string& file) {
  check_toml_text(text, file);
  try {
    const toml::table table = toml::parse(text, file);
    return convert(table, 1);
  } catch (const toml::parse_error& error) {
    const toml::source_position at = error.source().begin;
    fail(ErrorKind::kUsage, "{}:{}:{}: {}", file, at.line, at.column, error.description());
  }
}

Json toml_to_json(const TomlNode& node) {
  switch (node.kind) {
    case TomlNode::Kind::kTable: {
      Json out = Json::object();
      for (const auto& [key, value] : node.members) out[key] = toml_to_json(value);
      return out;
    }
    case TomlNode::Kind::kArray: {
      Json out = Json::array();
      for (const TomlNode& item : node.items) out.push_back(toml_to_json(item));
      return out;
    }
    case TomlNode::Kind::kInteger:
      return node.integer;
    case TomlNode::Kind::kFloat:
      return node.number;
    case TomlNode::Kind::kBoolean:
      return node.boolean;
    case TomlNode::Kind::kString:
    case TomlNode::Kind::kOther:
      break;
  }
  return node.text;
}

}  // namespace mlx
