// Keys that are known are rows of lists; all others are refused.
#include "infer/grammar/schema_parts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "data/subword/utf8.h"
#include "infer/grammar/json_text.h"
#include "infer/grammar/schema_pattern.h"

namespace mlx::infer::grammar {
namespace {

constexpr std::string_view kAnnotations[] = {
    "$comment",         "$defs",    "$id",         "$schema",    "contentEncoding",
    "contentMediaType", "default",  "definitions", "deprecated", "description",
    "examples",         "readOnly", "title",       "writeOnly"};

// Keys, and the type that they are about; "" for all.
struct KnownKey {
  std::string_view key, type;
};
constexpr KnownKey kKnownKeys[] = {{"$ref", ""},
                                   {"allOf", ""},
                                   {"anyOf", ""},
                                   {"const", ""},
                                   {"enum", ""},
                                   {"oneOf", ""},
                                   {"type", ""},
                                   {"additionalProperties", "object"},
                                   {"properties", "object"},
                                   {"required", "object"},
                                   {"items", "array"},
                                   {"maxItems", "array"},
                                   {"minItems", "array"},
                                   {"prefixItems", "array"},
                                   {"format", "string"},
                                   {"maxLength", "string"},
                                   {"minLength", "string"},
                                   {"pattern", "string"},
                                   {"exclusiveMaximum", "number"},
                                   {"exclusiveMinimum", "number"},
                                   {"maximum", "number"},
                                   {"minimum", "number"}};
constexpr std::array<std::string_view, 7> kTypes{"object", "array", "string", "integer", "number", "boolean", "null"};

constexpr std::array<std::string_view, 5> kFormats{"date", "date-time", "time", "uuid", "ipv4"};

// A part of what the format has: dates that are one in every year.
std::string pattern_of(std::string_view format) {
  const std::string date =
      "[1-9][0-9]{3}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|"
      "2[0-8]))";
  const std::string hours = "([01][0-9]|2[0-3]):[0-5][0-9]";
  const std::string time = hours + ":[0-5][0-9](\\.[0-9]{1,6})?(Z|[+-]" + hours + ")";
  const std::string octet = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  if (format == "date") return date;
  if (format == "time") return time;
  if (format == "date-time") return date + "T" + time;
  if (format == "uuid") return "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}";
  return "(" + octet + "\\.){3}" + octet;
}

bool has_type(const Json& value, std::string_view type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  return value.is_number_integer() ||
         (value.is_number_float() && std::floor(value.get<double>()) == value.get<double>());
}

// A bound as an integer; `up`: the next one above a fraction.
std::int64_t integral(const Json& value, bool integer, bool up, const char* key, const std::string& place) {
  constexpr double kMost = 1e15;
  if (!value.is_number() || std::fabs(value.get<double>()) > kMost)
    fail(ErrorKind::kUsage, "{}: '{}': expected a number from -1e15 to 1e15", place, key);
  const double bound = value.get<double>(), whole = up ? std::ceil(bound) : std::floor(bound);
  if (!integer && whole != bound)
    fail(ErrorKind::kUsage, "{}: '{}' of a number: only integers are supported", place, key);
  return static_cast<std::int64_t>(whole);
}

const Json& resolved(const Json& root, const Json& schema) {
  const Json* at = &schema;
  for (int i = 0; i < 20 && at->is_object() && at->contains("$ref") && (*at)["$ref"].is_string(); ++i) {
    const Json* const next = find_schema(root, (*at)["$ref"].get<std::string>());
    if (!next) break;
    at = next;
  }
  return *at;
}

bool share_types(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const auto as_number = [](const std::string& type) { return type == "integer" ? std::string("number") : type; };
  return std::ranges::any_of(a, [&](const std::string& x) {
    return std::ranges::any_of(b, [&](const std::string& y) { return as_number(x) == as_number(y); });
  });
}

bool lists_values(const Json& schema) {
  return schema.contains("const") || schema.contains("enum");
}

bool requires_member(const Json& schema, const std::string& name) {
  const auto found = schema.find("required");
  return found != schema.end() && found->is_array() && std::ranges::find(*found, Json(name)) != found->end();
}

}  // namespace

bool is_annotation(std::string_view key) {
  return key.starts_with("x-") || std::ranges::find(kAnnotations, key) != std::end(kAnnotations);
}

void check_keys(const Json& schema, const std::string& place) {
  if (!schema.is_object())
    fail(ErrorKind::kUsage, "{}: expected a schema, an object, got {}", place, schema.type_name());
  for (const auto& [key, value] : schema.items()) {
    const std::string_view name = key;
    const bool nothing = (name == "uniqueItems" && value == false) || (name == "minProperties" && value == 0) ||
                         (name == "multipleOf" && value == 1 && schema.value("type", Json()) == "integer");
    if (nothing || is_annotation(name) || std::ranges::find(kKnownKeys, name, &KnownKey::key) != std::end(kKnownKeys))
      continue;
    std::vector<std::string_view> known;
    for (const KnownKey& each : kKnownKeys) known.push_back(each.key);
    throw Error(ErrorKind::kUsage, fmt::format("{}: '{}' is not supported", place, printable(name)),
                fmt::format("supported: {}", fmt::join(known, ", ")));
  }
}

std::string reference_of(const Json& value, const std::string& place) {
  if (!value.is_string()) fail(ErrorKind::kUsage, "{}: '$ref': expected a string", place);
  std::string reference = value.get<std::string>();
  if (reference != "#" && !reference.starts_with("#/"))
    fail(ErrorKind::kUsage, "{}: '$ref' '{}' is not supported: only those within the schema, such as #/$defs/a", place,
         printable(reference));
  return reference;
}

const Json* find_schema(const Json& root, const std::string& reference) {
  const Json* at = &root;
  for (std::size_t from = 1; from < reference.size();) {
    const std::size_t end = std::min(reference.find('/', from + 1), reference.size());
    std::string key;
    for (std::size_t i = from + 1; i < end; ++i) {
      const bool escape = reference[i] == '~' && i + 1 < end && (reference[i + 1] == '0' || reference[i + 1] == '1');
      key += escape ? (reference[++i] == '0' ? '~' : '/') : reference[i];
    }
    from = end;
    if (at->is_object() && at->contains(key)) {
      at = &(*at)[key];
    } else if (at->is_array() && !key.empty() && key.size() < 9 &&
               key.find_first_not_of("0123456789") == std::string::npos && std::stoul(key) < at->size()) {
      at = &(*at)[std::stoul(key)];
    } else {
      return nullptr;
    }
  }
  return at;
}

std::string json_text_of(const Json& schema, const char* key, const std::string& place) {
  if (!schema[key].is_string()) fail(ErrorKind::kUsage, "{}: '{}': expected a string", place, key);
  return schema[key].get<std::string>();
}

std::uint32_t count_of(const Json& schema, const char* key, std::uint32_t otherwise, const std::string& place) {
  constexpr std::int64_t kMost = 1'000'000;
  const auto found = schema.find(key);
  if (found == schema.end()) return otherwise;
  if (!found->is_number_integer() || *found < 0 || *found > kMost)
    fail(ErrorKind::kUsage, "{}: '{}': expected an integer from 0 to {}", place, key, kMost);
  return found->get<std::uint32_t>();
}

std::vector<Json> values_of(const Json& schema, const std::string& place) {
  std::vector<Json> values;
  if (const auto found = schema.find("enum"); found != schema.end()) {
    if (!found->is_array() || found->empty()) fail(ErrorKind::kUsage, "{}: 'enum': expected values in a list", place);
    values.assign(found->begin(), found->end());
    if (schema.contains("const")) std::erase_if(values, [&](const Json& value) { return value != schema["const"]; });
  } else {
    values.push_back(schema["const"]);
  }
  if (!schema.contains("type")) return values;
  const std::vector<std::string> types = types_of(schema, place);
  std::erase_if(values, [&](const Json& value) {
    return std::ranges::none_of(types, [&](const std::string& type) { return has_type(value, type); });
  });
  return values;
}

std::vector<std::string> types_of(const Json& schema, const std::string& place) {
  std::vector<std::string> types;
  const auto add = [&](const Json& type) {
    if (!type.is_string() || std::ranges::find(kTypes, type.get<std::string>()) == kTypes.end())
      fail(ErrorKind::kUsage, "{}: 'type': expected {}", place, fmt::join(kTypes, ", "));
    types.push_back(type.get<std::string>());
  };
  const auto found = schema.find("type");
  if (found != schema.end() && found->is_array()) {
    for (const Json& type : *found) add(type);
    if (types.empty()) fail(ErrorKind::kUsage, "{}: 'type' is empty", place);
    return types;
  }
  if (found != schema.end()) return add(*found), types;
  for (const KnownKey& known : kKnownKeys)
    if (!known.type.empty() && schema.contains(std::string(known.key)) &&
        std::ranges::find(types, known.type) == types.end())
      types.emplace_back(known.type);
  if (types.empty()) types = {"object", "array", "string", "number", "boolean", "null"};
  return types;
}

Bounds bounds_of(const Json& schema, bool integer, const std::string& place) {
  Bounds out;
  const auto bound = [&](const char* key, bool up, std::int64_t move) -> std::optional<std::int64_t> {
    const auto found = schema.find(key);
    if (found == schema.end()) return {};
    if (move != 0 && !integer)
      fail(ErrorKind::kUsage, "{}: '{}' of a number is not supported: write {}", place, key,
           up ? "minimum" : "maximum");
    const std::int64_t whole = integral(*found, integer, move > 0 ? false : move < 0 ? true : up, key, place);
    return whole + move;
  };
  out.least = bound("minimum", true, 0);
  if (const auto other = bound("exclusiveMinimum", true, 1)) out.least = std::max(out.least.value_or(*other), *other);
  out.most = bound("maximum", false, 0);
  if (const auto other = bound("exclusiveMaximum", false, -1)) out.most = std::min(out.most.value_or(*other), *other);
  if (out.least && out.most && *out.least > *out.most)
    fail(ErrorKind::kUsage, "{}: no number is at least {} and at most {}", place, *out.least, *out.most);
  return out;
}

std::vector<Member> members_of(const Json& schema, const std::string& place) {
  std::vector<Member> members;
  if (const auto found = schema.find("properties"); found != schema.end()) {
    if (!found->is_object()) fail(ErrorKind::kUsage, "{}: 'properties': expected an object", place);
    for (const auto& [name, value] : found->items()) members.push_back({name, &value});
  }
  const auto required = schema.find("required");
  if (required == schema.end()) return members;
  if (!required->is_array()) fail(ErrorKind::kUsage, "{}: 'required': expected names in a list", place);
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < members.size(); ++i) places.emplace(members[i].name, i);
  for (const Json& name : *required) {
    if (!name.is_string()) fail(ErrorKind::kUsage, "{}: 'required': expected names in a list", place);
    const auto [at, fresh] = places.emplace(name.get<std::string>(), members.size());
    if (fresh) members.push_back({at->first});
    members[at->second].required = true;
  }
  return members;
}

// A tree of the names, a rule for each place in it: at each, a character that none goes on with, or the end.
Expression other_name(Rules& rules, const std::vector<Member>& members) {
  struct Stop {
    std::map<char32_t, std::size_t> next;
    bool is_name = false;
  };
  std::vector<Stop> tree(1);
  for (const Member& member : members) {
    std::size_t at = 0;
    bool plain = true;  // names with escapes are never written here
    for (std::size_t i = 0; i < member.name.size() && plain;) {
      const data::subword::Character c = data::subword::character_at(member.name, i);
      i += c.bytes;
      plain = contains(plain_characters(), c.code);
      if (!plain) break;
      const auto [found, fresh] = tree[at].next.emplace(c.code, tree.size());
      const std::size_t next = found->second;
      if (fresh) tree.emplace_back();
      at = next;
    }
    if (plain) tree[at].is_name = true;
  }
  const Expression rest = repeat(character(plain_characters()), 0, kNoLimit);
  const std::size_t first = rules.rules.size();
  for (const Stop& stop : tree) {
    CodePoints taken;
    std::vector<Expression> either;
    for (const auto& [code, next] : stop.next) {
      taken.emplace_back(code, code);
      either.push_back(sequence({character({{code, code}}), rule(first + next)}));
    }
    CodePoints others = common(all_but(code_points(std::move(taken))), plain_characters());
    if (!others.empty()) either.push_back(sequence({character(std::move(others)), rest}));
    if (!stop.is_name) either.push_back(sequence({}));
    rules.add("another name", choice(std::move(either)));
  }
  return sequence({text("\""), rule(first), text("\"")});
}

Expression formatted(const std::string& format, const std::string& place) {
  if (std::ranges::find(kFormats, format) != kFormats.end()) return matching("^" + pattern_of(format) + "$", place);
  throw Error(ErrorKind::kUsage, fmt::format("{}: the format '{}' is not supported", place, printable(format)),
              fmt::format("supported: {}", fmt::join(kFormats, ", ")));
}

bool are_apart(const Json& root, const Json& a_given, const Json& b_given, const std::string& place) {
  const Json &a = resolved(root, a_given), &b = resolved(root, b_given);
  if (!a.is_object() || !b.is_object()) return false;
  if (lists_values(a) && lists_values(b)) {
    const std::vector<Json> of_a = values_of(a, place), of_b = values_of(b, place);
    return std::ranges::none_of(of_a, [&](const Json& x) { return std::ranges::find(of_b, x) != of_b.end(); });
  }
  if (lists_values(a) || lists_values(b)) {
    const Json &listed = lists_values(a) ? a : b, &other = lists_values(a) ? b : a;
    if (!other.contains("type")) return false;
    const std::vector<std::string> types = types_of(other, place);
    return std::ranges::none_of(values_of(listed, place), [&](const Json& value) {
      return std::ranges::any_of(types, [&](const std::string& type) { return has_type(value, type); });
    });
  }
  if (!a.contains("type") || !b.contains("type")) return false;
  const std::vector<std::string> types_a = types_of(a, place), types_b = types_of(b, place);
  if (!share_types(types_a, types_b)) return true;
  const bool objects = types_a == std::vector<std::string>{"object"} && types_a == types_b;
  if (!objects || !a.contains("properties") || !a["properties"].is_object()) return false;
  if (!b.contains("properties") || !b["properties"].is_object()) return false;
  const Json& theirs = b["properties"];
  for (const auto& [name, schema] : a["properties"].items()) {
    if (!requires_member(a, name) || !requires_member(b, name) || !theirs.contains(name)) continue;
    const Json &x = resolved(root, schema), &y = resolved(root, theirs[name]);
    if (x.is_object() && y.is_object() && lists_values(x) && lists_values(y) && are_apart(root, x, y, place))
      return true;
  }
  return false;
}

}  // namespace mlx::infer::grammar
