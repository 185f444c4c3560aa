// Methods of text, dicts and lists, and what a function was given.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "data/subword/unicode.h"
#include "data/subword/utf8.h"
#include "infer/jinja/builtins.h"
#include "infer/jinja/text.h"

namespace mlx::infer::jinja {
namespace {

using Method = Value (*)(const std::string& text, const Arguments& arguments, Budget& budget);

constexpr std::size_t kMostStripped = 64;

template <bool kLeft, bool kRight>
Value strip(const std::string& text, const Arguments& arguments, Budget& budget) {
  const GivenArguments given("strip", arguments, {"chars"});
  std::optional<std::string_view> set;
  if (given[0] && !given[0]->is<None>()) {
    set = given.text(0);
    if (set->size() > kMostStripped) unsupported(fmt::format("strip: more than {} bytes to strip", kMostStripped));
    budget.bytes(text.size());
  }
  return string_value(std::string(stripped(text, kLeft, kRight, set)), budget);
}

Value list_of(const std::vector<std::string_view>& parts, Budget& budget) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) items.push_back(string_value(std::string(part), budget));
  return list_value(std::move(items), ListKind::kList, budget);
}

Value split_text(const std::string& text, const Arguments& arguments, Budget& budget) {
  const GivenArguments given("split", arguments, {"sep", "maxsplit"});
  std::optional<std::string_view> by;
  if (given[0] && !given[0]->is<None>()) by = given.text(0);
  budget.steps(text.size() / 8);
  return list_of(split(text, by, given.integer(1, -1)), budget);
}

Value rsplit_text(const std::string& text, const Arguments& arguments, Budget& budget) {
  const GivenArguments given("rsplit", arguments, {"sep", "maxsplit"});
  const std::string_view by = given.text(0);
  std::vector<std::string_view> parts = split(text, by, -1);
  budget.steps(parts.size());
  const std::int64_t most = given.integer(1, -1);
  if (most >= 0 && parts.size() > static_cast<std::size_t>(most) + 1) {
    const std::size_t joined = parts.size() - static_cast<std::size_t>(most);
    const std::string_view last = parts[joined - 1];
    const std::string_view first(text.data(), static_cast<std::size_t>(last.data() + last.size() - text.data()));
    parts.erase(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(joined) - 1);
    parts[0] = first;
  }
  return list_of(parts, budget);
}

Value lines_in(const std::string& text, const Arguments& arguments, Budget& budget) {
  (void)GivenArguments("splitlines", arguments, {});
  budget.steps(text.size() / 8);
  return list_of(lines_of(text), budget);
}

template <bool kStart>
Value begins_or_ends(const std::string& text, const Arguments& arguments, Budget& budget) {
  const GivenArguments given(kStart ? "startswith" : "endswith", arguments, {"prefix"});
  const auto fits = [&](const Value& part) {
    if (!part.is_string()) fault(fmt::format("startswith and endswith take text, not {}", type_name(part)));
    budget.bytes(part.string().size() / 16);
    return kStart ? text.starts_with(part.string()) : text.ends_with(part.string());
  };
  const Value& parts = given.needed(0);
  if (!parts.is_list()) return {fits(parts)};
  budget.steps(parts.list().items.size());
  return {std::ranges::any_of(parts.list().items, fits)};
}

Value replace_text(const std::string& text, const Arguments& arguments, Budget& budget) {
  const GivenArguments given("replace", arguments, {"old", "new", "count"});
  budget.bytes(text.size());
  return string_value(replaced(text, given.text(0), given.text(1), given.integer(2, -1), budget), budget);
}

template <std::string (*kChange)(std::string_view)>
Value change_case(const std::string& text, const Arguments& arguments, Budget& budget) {
  (void)GivenArguments("a method for the case of text", arguments, {});
  return string_value(kChange(text), budget);
}

Value find_in(const std::string& text, const Arguments& arguments, Budget& budget) {
  const GivenArguments given("find", arguments, {"sub"});
  budget.bytes(text.size());
  const std::size_t at = find_text(text, given.text(0));
  return {at == std::string_view::npos ? std::int64_t{-1} : characters(std::string_view(text).substr(0, at))};
}

Value rfind_in(const std::string& text, const Arguments& arguments, Budget& budget) {
  const GivenArguments given("rfind", arguments, {"sub"});
  budget.bytes(text.size());
  std::size_t last = std::string_view::npos;
  for (std::size_t at = 0; (at = find_text(text, given.text(0), at)) != std::string_view::npos; ++at) {
    budget.steps();
    budget.bytes(given.text(0).size());
    last = at;
  }
  return {last == std::string_view::npos ? std::int64_t{-1} : characters(std::string_view(text).substr(0, last))};
}

Value count_in(const std::string& text, const Arguments& arguments, Budget& budget) {
  const GivenArguments given("count", arguments, {"sub"});
  const std::string& part = given.text(0);
  budget.bytes(text.size());
  if (part.empty()) return {characters(text) + 1};
  std::int64_t count = 0;
  for (std::size_t at = 0; (at = find_text(text, part, at)) != std::string_view::npos; at += part.size()) ++count;
  return {count};
}

Value join_with(const std::string& text, const Arguments& arguments, Budget& budget) {
  const GivenArguments given("join", arguments, {"iterable"});
  std::string out;
  bool first = true;
  for (const Value& part : members(given.needed(0), budget)) {
    if (!part.is_string()) fault(fmt::format("join: the parts are text, not {}", type_name(part)));
    budget.bytes(text.size() + part.string().size());
    if (!first) out += text;
    out += part.string();
    first = false;
  }
  return string_value(std::move(out), budget);
}

template <bool kStart>
Value without(const std::string& text, const Arguments& arguments, Budget& budget) {
  const GivenArguments given(kStart ? "removeprefix" : "removesuffix", arguments, {"affix"});
  std::string_view rest = text;
  const std::string& part = given.text(0);
  if (kStart && rest.starts_with(part)) rest.remove_prefix(part.size());
  if (!kStart && rest.ends_with(part)) rest.remove_suffix(part.size());
  return string_value(std::string(rest), budget);
}

bool all_characters(const std::string& text, Budget& budget, bool (*is)(char32_t)) {
  budget.bytes(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const data::subword::Character next = data::subword::character_at(text, at);
    if (!is(next.code)) return false;
    at += next.bytes;
  }
  return !text.empty();
}

Value all_digits(const std::string& text, const Arguments& arguments, Budget& budget) {
  (void)GivenArguments("isdigit", arguments, {});
  return {all_characters(text, budget, [](char32_t code) {
    if (code < 0x80) return code >= '0' && code <= '9';
    if (data::subword::is_in(data::subword::set_of(data::subword::Category::kNo), code))
      unsupported("isdigit of such characters");
    return data::subword::is_in(data::subword::set_of(data::subword::Category::kNd), code);
  })};
}

Value all_blanks(const std::string& text, const Arguments& arguments, Budget& budget) {
  (void)GivenArguments("isspace", arguments, {});
  return {all_characters(text, budget, is_blank)};
}

struct TextMethod {
  std::string_view name;
  Method method;
};
constexpr TextMethod kTextMethods[] = {
    {"strip", strip<true, true>},
    {"lstrip", strip<true, false>},
    {"rstrip", strip<false, true>},
    {"split", split_text},
    {"rsplit", rsplit_text},
    {"splitlines", lines_in},
    {"startswith", begins_or_ends<true>},
    {"endswith", begins_or_ends<false>},
    {"replace", replace_text},
    {"upper", change_case<uppercase>},
    {"lower", change_case<lowercase>},
    {"title", change_case<titlecase>},
    {"capitalize", change_case<capitalized>},
    {"find", find_in},
    {"rfind", rfind_in},
    {"count", count_in},
    {"join", join_with},
    {"removeprefix", without<true>},
    {"removesuffix", without<false>},
    {"isdigit", all_digits},
    {"isspace", all_blanks},
};
constexpr std::string_view kOtherTextMethods[] = {
    "casefold",    "center",     "encode",   "expandtabs", "format",    "format_map",   "index",
    "isalnum",     "isalpha",    "isascii",  "islower",    "isdecimal", "isidentifier", "isnumeric",
    "isprintable", "istitle",    "isupper",  "ljust",      "maketrans", "partition",    "rindex",
    "rjust",       "rpartition", "swapcase", "translate",  "zfill"};
constexpr std::string_view kDictMethods[] = {"get", "items", "keys", "values", "copy"};
constexpr std::string_view kOtherDictMethods[] = {"clear", "fromkeys", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kListMethods[] = {"count", "index"};
constexpr std::string_view kOtherListMethods[] = {"append", "clear",  "copy",    "extend", "insert",
                                                  "pop",    "remove", "reverse", "sort"};

template <std::size_t kCount>
bool is_one_of(const std::string_view (&names)[kCount], std::string_view name) {
  return std::ranges::find(names, name) != std::end(names);
}

const TextMethod* text_method(std::string_view name) {
  const auto* const found = std::ranges::find(kTextMethods, name, &TextMethod::name);
  return found == std::end(kTextMethods) ? nullptr : found;
}

Value call_dict_method(const Value& value, std::string_view name, const Arguments& arguments, Budget& budget) {
  const Dict& dict = value.dict();
  if (name == "get") {
    const GivenArguments given("get", arguments, {"key", "default"});
    if (const Value* const found = item_of(dict, given.needed(0), budget)) return *found;
    return given[1] ? *given[1] : Value{None{}};
  }
  (void)GivenArguments(std::string(name), arguments, {});
  if (name == "copy") return value;
  std::vector<Value> items;
  for (const auto& [key, item] : dict.items) {
    if (name == "items") {
      items.push_back(list_value({key, item}, ListKind::kTuple, budget));
    } else {
      items.push_back(name == "keys" ? key : item);
    }
  }
  return list_value(std::move(items), ListKind::kView, budget);
}

Value call_list_method(const Value& value, std::string_view name, const Arguments& arguments, Budget& budget) {
  const GivenArguments given(std::string(name), arguments, {"value"});
  const auto& items = value.list().items;
  std::int64_t count = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!equal(items[i], given.needed(0), budget)) continue;
    if (name == "index") return {static_cast<std::int64_t>(i)};
    ++count;
  }
  if (name == "index") fault("index: the list does not hold that value");
  return {count};
}

}  // namespace

GivenArguments::GivenArguments(std::string what, const Arguments& given, std::initializer_list<std::string_view> names)
    : what_(std::move(what)), names_(names.begin(), names.end()), found_(names.size(), nullptr) {
  if (given.values.size() > names_.size())
    fault(fmt::format("{}: {} arguments, at most {} are known", what_, given.values.size(), names_.size()));
  for (std::size_t i = 0; i < given.values.size(); ++i) found_[i] = &given.values[i];
  for (const auto& [name, value] : given.named) {
    const auto known = std::ranges::find(names_, name);
    if (known == names_.end()) unsupported(fmt::format("{}: the argument '{}'", what_, name));
    found_[static_cast<std::size_t>(known - names_.begin())] = &value;
  }
}

const Value& GivenArguments::needed(std::size_t place) const {
  if (!found_[place]) fault(fmt::format("{}: the argument '{}' is missing", what_, names_[place]));
  return *found_[place];
}

const std::string& GivenArguments::text(std::size_t place) const {
  const Value& value = needed(place);
  if (!value.is_string()) fault(fmt::format("{}: '{}' is text, not {}", what_, names_[place], type_name(value)));
  return value.string();
}

std::int64_t GivenArguments::integer(std::size_t place, std::int64_t otherwise) const {
  if (!found_[place]) return otherwise;
  if (!found_[place]->is_integer())
    fault(fmt::format("{}: '{}' is an integer, not {}", what_, names_[place], type_name(*found_[place])));
  return found_[place]->integer();
}

bool has_method(const Value& value, std::string_view name) {
  if (value.is_string()) return text_method(name) || is_one_of(kOtherTextMethods, name);
  if (value.is_dict()) return is_one_of(kDictMethods, name) || is_one_of(kOtherDictMethods, name);
  if (!value.is_list()) return false;
  if (value.list().kind >= ListKind::kView) return false;
  return is_one_of(kListMethods, name) || (value.list().kind == ListKind::kList && is_one_of(kOtherListMethods, name));
}

Value call_method(const Value& value, std::string_view name, const Arguments& arguments, Budget& budget) {
  budget.steps();
  if (value.is_string()) {
    if (const TextMethod* const known = text_method(name)) return known->method(value.string(), arguments, budget);
  } else if (value.is_dict() && is_one_of(kDictMethods, name)) {
    return call_dict_method(value, name, arguments, budget);
  } else if (value.is_list() && is_one_of(kListMethods, name)) {
    return call_list_method(value, name, arguments, budget);
  }
  unsupported(fmt::format("the method '{}' of {}", name, type_name(value)));
}

void need_defined(const Value& value) {
  if (!value.is<Undefined>()) return;
  const Undefined& nothing = std::get<Undefined>(value.held);
  fault(nothing.name ? fmt::format("'{}' is undefined", *nothing.name) : "the value is undefined");
}

Value item_named(const Value& value, const Value& key, Budget& budget) {
  budget.steps();
  need_defined(value);
  if (value.is_dict() && !key.is_list() && !key.is_dict()) {
    if (const Value* const found = item_of(value.dict(), key, budget)) return *found;
  } else if ((value.is_list() || value.is_string()) && key.is_integer()) {
    return item_at(value, key.integer(), budget);
  }
  if (key.is_string() && (has_method(value, key.string()) || value.is<Namespace*>()))
    return attribute_of(value, key.string());
  return {};
}

Value attribute_of(const Value& value, const std::string& name) {
  need_defined(value);
  if (value.is<Namespace*>()) {
    const auto& values = std::get<Namespace*>(value.held)->values;
    const auto found = values.find(name);
    return found == values.end() ? Value{Undefined{}} : found->second;
  }
  if (has_method(value, name)) unsupported(fmt::format("the method '{}' without a call", name));
  if (!value.is_dict()) return {};
  const Value* const found = value.dict().find(name);
  return found ? *found : Value{};
}

}  // namespace mlx::infer::jinja
