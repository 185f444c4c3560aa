// One expression for each type that a schema allows. Schemas that others refer to become rules.
#include "infer/grammar/json_schema.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "infer/grammar/json_text.h"
#include "infer/grammar/schema_parts.h"
#include "infer/grammar/schema_pattern.h"

namespace mlx::infer::grammar {
namespace {

constexpr std::size_t kLargestSchema = std::size_t{1} << 20, kMostSchemaRules = 50'000;
constexpr int kDeepestSchema = 300;

class SchemaCompiler {
 public:
  SchemaCompiler(const Json& root, const std::string& what) : root_(root), what_(what), json_(rules_) {}

  Rules compile() {
    rules_.root = referred("#", "");
    return std::move(rules_);
  }

 private:
  Expression of(const Json& schema, const std::string& at) {
    if (rules_.rules.size() > kMostSchemaRules) refuse(at, "the schema is too large");
    if (depth_ == kDeepestSchema) refuse(at, "more than {} schemas in each other", kDeepestSchema);
    ++depth_;
    Expression out = of_deeper(schema, at);
    --depth_;
    return out;
  }

  Expression of_deeper(const Json& schema, const std::string& at) {
    if (schema.is_boolean()) {
      if (!schema.get<bool>()) refuse(at, "false allows nothing");
      return json_.value();
    }
    check_keys(schema, place(at));
    if (const auto found = schema.find("$ref"); found != schema.end()) {
      alone(schema, {"$ref"}, at);
      return rule(referred(reference_of(*found, place(at)), at));
    }
    if (schema.contains("const") || schema.contains("enum")) return listed(schema, at);
    for (const char* const key : {"anyOf", "oneOf", "allOf"})
      if (schema.contains(key)) return combined(schema, key, at);
    std::vector<Expression> either;
    for (const std::string& type : types_of(schema, place(at))) either.push_back(typed(type, schema, at));
    return choice(std::move(either));
  }

  template <typename... Args>
  [[noreturn]] void refuse(const std::string& at, fmt::format_string<Args...> format, Args&&... args) const {
    fail(ErrorKind::kUsage, "{}: {}", place(at), fmt::format(format, std::forward<Args>(args)...));
  }
  std::string place(const std::string& at) const { return fmt::format("{}: {}", what_, at.empty() ? "/" : at); }

  // Only these keys, and those that say nothing about what is allowed.
  void alone(const Json& schema, const std::set<std::string_view>& keys, const std::string& at) const {
    for (const auto& [key, value] : schema.items())
      if (!keys.contains(key) && !is_annotation(key))
        refuse(at, "'{}' beside '{}' is not supported", printable(key), *keys.begin());
  }

  std::size_t referred(const std::string& pointer, const std::string& at) {
    const auto found = referred_.find(pointer);
    if (found != referred_.end()) return found->second;
    const Json* const schema = find_schema(root_, pointer);
    if (!schema) refuse(at, "$ref: there is no '{}'", printable(pointer));
    const std::size_t number = rules_.add(pointer, {});
    referred_.emplace(pointer, number);
    Expression body = of(*schema, pointer.substr(1));
    rules_.rules[number].body = std::move(body);
    return number;
  }

  // const, enum.
  Expression listed(const Json& schema, const std::string& at) {
    alone(schema, {"const", "enum", "type"}, at);
    std::vector<std::string> texts;
    for (const Json& value : values_of(schema, place(at))) texts.push_back(value.dump());
    if (texts.empty()) refuse(at, "none of its values has its type");
    return one_of(std::move(texts));
  }

  Expression combined(const Json& schema, const char* key, const std::string& at) {
    alone(schema, {key}, at);
    const Json& parts = schema[key];
    if (!parts.is_array() || parts.empty()) refuse(at, "'{}': expected schemas in a list", key);
    if (std::string_view(key) == "allOf" && parts.size() > 1)
      refuse(at, "'allOf' of more than one schema is not supported: write them as one");
    if (std::string_view(key) == "oneOf") check_apart(parts, at);
    std::vector<Expression> either;
    for (std::size_t i = 0; i < parts.size(); ++i) either.push_back(of(parts[i], fmt::format("{}/{}/{}", at, key, i)));
    return choice(std::move(either));
  }

  // What is one of them must be no other.
  void check_apart(const Json& parts, const std::string& at) const {
    constexpr std::size_t kMostCompared = 200;
    if (parts.size() > kMostCompared) refuse(at, "'oneOf' of more than {} schemas", kMostCompared);
    for (std::size_t i = 0; i < parts.size(); ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (!are_apart(root_, parts[i], parts[j], what_))
          throw Error(ErrorKind::kUsage,
                      fmt::format("{}: 'oneOf': a value may be of the schemas {} and {} at once", place(at), j, i),
                      "write anyOf, or give both a required property with a const that tells them apart");
  }

  Expression typed(const std::string& type, const Json& schema, const std::string& at) {
    if (type == "object") return object(schema, at);
    if (type == "array") return array(schema, at);
    if (type == "string") return string(schema, at);
    if (type == "integer" || type == "number") return number(type == "integer", schema, at);
    if (type == "boolean") return choice({text("true"), text("false")});
    return text("null");
  }

  Expression string(const Json& schema, const std::string& at) {
    const std::uint32_t least = count_of(schema, "minLength", 0, place(at)),
                        most = count_of(schema, "maxLength", kNoLimit, place(at));
    const bool bounded = least > 0 || most != kNoLimit;
    if (most < least) refuse(at, "'maxLength' is below 'minLength'");
    if (schema.contains("pattern") + schema.contains("format") + bounded > 1)
      refuse(at, "'pattern', 'format' and lengths beside each other are not supported");
    if (schema.contains("pattern")) {
      const std::string pattern = json_text_of(schema, "pattern", place(at));
      return sequence({text("\""), matching(pattern, place(at)), text("\"")});
    }
    if (schema.contains("format"))
      return sequence({text("\""), formatted(json_text_of(schema, "format", place(at)), place(at)), text("\"")});
    return json_.string(least, most);
  }

  Expression number(bool integer, const Json& schema, const std::string& at) const {
    const Bounds bounds = bounds_of(schema, integer, place(at));
    if (integer) return integers(bounds.least, bounds.most);
    return bounds.least || bounds.most ? numbers(bounds.least, bounds.most) : any_number();
  }

  Expression array(const Json& schema, const std::string& at) {
    const std::uint32_t least = count_of(schema, "minItems", 0, place(at)),
                        most = count_of(schema, "maxItems", kNoLimit, place(at));
    if (most < least) refuse(at, "'maxItems' is below 'minItems'");
    std::vector<Expression> first;
    if (const auto found = schema.find("prefixItems"); found != schema.end()) {
      if (!found->is_array() || found->empty()) refuse(at, "'prefixItems': expected schemas in a list");
      for (std::size_t i = 0; i < found->size() && i < most; ++i)
        first.push_back(shared((*found)[i], fmt::format("{}/prefixItems/{}", at, i)));
    }
    const auto count = static_cast<std::uint32_t>(first.size());
    const Json* rest = schema.contains("items") ? &schema["items"] : nullptr;
    if (rest && rest->is_array()) refuse(at, "'items' as a list is not supported: write prefixItems");
    if (rest && *rest == false)
      rest = nullptr;
    else if (!rest && (count == 0 || least > count))
      rest = &anything_;
    if (!rest && least > count) refuse(at, "'minItems' is more than the items that it may have");
    std::optional<Expression> item;
    if (rest && most > count) item = shared(*rest, at + "/items");
    return json_.bracketed("[", items(std::move(first), item, least, most), "]");
  }

  // `least` to `most` items: the first ones, then any number of `item`.
  Expression items(std::vector<Expression> first, const std::optional<Expression>& item, std::uint32_t least,
                   std::uint32_t most) {
    const auto count = static_cast<std::uint32_t>(first.size());
    const auto less = [](std::uint32_t from, std::uint32_t what) {
      return from == kNoLimit ? kNoLimit : from - std::min(from, what);
    };
    if (count == 0) {
      if (!item) return sequence({});
      Expression some = sequence({*item, repeat(json_.behind_comma(*item), less(least, 1), less(most, 1))});
      return least == 0 ? maybe(std::move(some)) : some;
    }
    Expression out = sequence({});
    if (item) out = repeat(json_.behind_comma(*item), less(least, count), less(most, count));
    for (std::uint32_t i = count; i > 0; --i) {
      Expression one = std::move(first[i - 1]);
      if (i > 1) one = json_.behind_comma(std::move(one));
      out = sequence({std::move(one), std::move(out)});
      if (least < i) out = maybe(std::move(out));
      // Each its own rule: expressions stay flat.
      out = rule(rules_.add(fmt::format("item {}", i), std::move(out)));
    }
    return out;
  }

  Expression object(const Json& schema, const std::string& at) {
    std::vector<Member> members = members_of(schema, place(at));
    const auto found = schema.find("additionalProperties");
    std::optional<Expression> more;
    if (found != schema.end() && *found != false)
      more = shared(*found, at + "/additionalProperties");
    else if (found == schema.end() && members.empty())
      more = json_.value();
    std::vector<Expression> values;
    for (const Member& member : members) {
      if (!member.schema && !more) refuse(at, "'{}' is required and no property", printable(member.name));
      values.push_back(member.schema ? shared(*member.schema, fmt::format("{}/properties/{}", at, member.name))
                                     : *more);
    }
    std::optional<Expression> other;
    if (more) other = json_.member(other_name(rules_, members), *more);
    return json_.bracketed("{", chain(members, std::move(values), other), "}");
  }

  // For each member what may follow it if it is the first one that is written, and if it is not.
  Expression chain(const std::vector<Member>& members, std::vector<Expression> values,
                   const std::optional<Expression>& other) {
    Expression first = sequence({}), later = sequence({});
    if (other) {
      later = repeat(json_.behind_comma(*other), 0, kNoLimit);
      first = maybe(sequence({*other, later}));
    }
    for (std::size_t i = members.size(); i > 0; --i) {
      Expression member = json_.member(text(Json(members[i - 1].name).dump()), std::move(values[i - 1]));
      const std::size_t behind = rules_.add(members[i - 1].name, std::move(later));
      later = sequence({json_.behind_comma(member), rule(behind)});
      Expression as_first = sequence({std::move(member), rule(behind)});
      if (members[i - 1].required) {
        first = std::move(as_first);
      } else {
        later = choice({std::move(later), rule(behind)});
        first = choice({std::move(as_first), rule(rules_.add(members[i - 1].name, std::move(first)))});
      }
    }
    return first;
  }

  // As a rule of its own where it is used more than once.
  Expression shared(const Json& schema, const std::string& at) {
    Expression body = of(schema, at);
    if (body.kind == Expression::Kind::kRule) return body;
    return rule(rules_.add(at, std::move(body)));
  }

  const Json& root_;
  const std::string& what_;
  const Json anything_ = true;
  Rules rules_;
  JsonRules json_;
  std::map<std::string, std::size_t> referred_;
  int depth_ = 0;
};

}  // namespace

Rules schema_rules(const Json& schema, const std::string& what) {
  return SchemaCompiler(schema, what).compile();
}

Rules parse_schema(std::string_view source, const std::string& what) {
  if (source.size() > kLargestSchema) fail(ErrorKind::kUsage, "{}: more than {} bytes", what, kLargestSchema);
  Json schema;
  try {
    schema = parse_json(source, what);
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage, error.message, "expected a JSON schema, such as {\"type\": \"object\"}");
  }
  return schema_rules(schema, what);
}

}  // namespace mlx::infer::grammar
