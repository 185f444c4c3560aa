// Filters and tests.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "infer/jinja/builtins.h"
#include "infer/jinja/operators.h"
#include "infer/jinja/text.h"

namespace mlx::infer::jinja {
namespace {

struct Filter {
  std::string_view name;
  Value (*apply)(const Value& value, const Arguments& arguments, Budget& budget);
};
struct Test {
  std::string_view name;
  bool (*apply)(const Value& value, const Arguments& arguments, Budget& budget);
};

Value as_text_value(const Value& value, Budget& budget) {
  return value.is_string() ? value : string_value(text_of(value, budget), budget);
}

// A method of the value's text: upper, replace and so on.
template <const char* kName>
Value by_method(const Value& value, const Arguments& arguments, Budget& budget) {
  return call_method(as_text_value(value, budget), kName, arguments, budget);
}
constexpr char kStrip[] = "strip", kUpper[] = "upper", kLower[] = "lower", kCapitalize[] = "capitalize",
               kReplace[] = "replace";

Value title_filter(const Value& value, const Arguments& arguments, Budget& budget) {
  (void)GivenArguments("title", arguments, {});
  return string_value(titlecase_words(text_of(value, budget)), budget);
}

Value length_filter(const Value& value, const Arguments& arguments, Budget& budget) {
  (void)GivenArguments("length", arguments, {});
  return {length(value, budget)};
}

Value tojson_filter(const Value& value, const Arguments& arguments, Budget& budget) {
  const GivenArguments given("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  if (given.truth_of(0) || (given[2] && !given[2]->is<None>())) unsupported("tojson with ensure_ascii or separators");
  constexpr std::int64_t kWidest = 64;
  std::int64_t indent = -1;
  if (given[1] && !given[1]->is<None>()) {
    indent = given.integer(1, 0);
    if (indent < 0 || indent > kWidest) unsupported(fmt::format("tojson with an indent of {}", indent));
  }
  return string_value(json_text(value, static_cast<int>(indent), given.truth_of(3), budget), budget);
}

Value default_filter(const Value& value, const Arguments& arguments, Budget&) {
  const GivenArguments given("default", arguments, {"default_value", "boolean"});
  const bool missing = value.is<Undefined>() || (given.truth_of(1) && !truth(value));
  if (!missing) return value;
  return given[0] ? *given[0] : Value{std::make_shared<const std::string>()};
}

Value path_of(Value value, const Value& path, Budget& budget) {
  if (path.is_integer()) return item_named(value, path, budget);
  if (!path.is_string()) fault("the name of an attribute is text");
  for (const std::string_view part : split(path.string(), ".", -1)) {
    std::int64_t place = 0;
    const auto number = std::from_chars(part.data(), part.data() + part.size(), place);
    const bool whole = number.ec == std::errc() && number.ptr == part.data() + part.size();
    value = item_named(value, whole ? Value{place} : string_value(std::string(part), budget), budget);
  }
  return value;
}

Value join_filter(const Value& value, const Arguments& arguments, Budget& budget) {
  const GivenArguments given("join", arguments, {"d", "attribute"});
  const std::string by = given[0] ? text_of(*given[0], budget) : std::string();
  std::string out;
  bool first = true;
  for (Value part : members(value, budget)) {
    if (given[1] && !given[1]->is<None>()) part = path_of(std::move(part), *given[1], budget);
    budget.bytes(by.size());
    if (!first) out += by;
    out += text_of(part, budget);
    first = false;
  }
  return string_value(std::move(out), budget);
}

template <bool kFirst>
Value end_filter(const Value& value, const Arguments& arguments, Budget& budget) {
  (void)GivenArguments(kFirst ? "first" : "last", arguments, {});
  const std::vector<Value> all = members(value, budget);
  if (all.empty()) return {};
  return kFirst ? all.front() : all.back();
}

std::optional<double> read_number(std::string_view text) {
  text = stripped(text, true, true);
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || text.empty()) return {};
  return number;
}

Value int_filter(const Value& value, const Arguments& arguments, Budget&) {
  const GivenArguments given("int", arguments, {"default"});
  const Value otherwise = given[0] ? *given[0] : Value{std::int64_t{0}};
  if (value.is_integer()) return {value.integer()};
  if (value.is_string()) {
    std::string_view text = stripped(value.string(), true, true);
    if (text.starts_with('+')) text.remove_prefix(1);
    std::int64_t number = 0;
    const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
    if (read.ec == std::errc() && read.ptr == text.data() + text.size()) return {number};
  }
  if (value.is<Undefined>()) fault("int: the value is undefined");
  if (!value.is_string() && !value.is<double>()) return otherwise;
  const std::optional<double> number = value.is<double>() ? value.number() : read_number(value.string());
  if (!number || std::isnan(*number) || std::isinf(*number)) return otherwise;
  constexpr double kLargest = 9e18;
  if (!(std::fabs(*number) < kLargest)) unsupported("an integer of more than 63 bits");
  return {static_cast<std::int64_t>(*number)};
}

Value float_filter(const Value& value, const Arguments& arguments, Budget&) {
  const GivenArguments given("float", arguments, {"default"});
  if (value.is_number()) return {value.number()};
  if (value.is<Undefined>()) fault("float: the value is undefined");
  const std::optional<double> number = value.is_string() ? read_number(value.string()) : std::nullopt;
  if (number) return {*number};
  return given[0] ? *given[0] : Value{0.0};
}

Value string_filter(const Value& value, const Arguments& arguments, Budget& budget) {
  (void)GivenArguments("string", arguments, {});
  return as_text_value(value, budget);
}

Value items_filter(const Value& value, const Arguments& arguments, Budget& budget) {
  (void)GivenArguments("items", arguments, {});
  if (value.is<Undefined>()) return list_value({}, ListKind::kOnce, budget);
  if (!value.is_dict()) fault(fmt::format("items: a dict is needed, not {}", type_name(value)));
  return list_value(members(call_method(value, "items", {}, budget), budget), ListKind::kOnce, budget);
}

Value list_filter(const Value& value, const Arguments& arguments, Budget& budget) {
  (void)GivenArguments("list", arguments, {});
  return list_value(members(value, budget), ListKind::kList, budget);
}

Value reverse_filter(const Value& value, const Arguments& arguments, Budget& budget) {
  (void)GivenArguments("reverse", arguments, {});
  if (value.is_string()) return slice(value, {None{}}, {None{}}, {std::int64_t{-1}}, budget);
  std::vector<Value> all = members(value, budget);
  std::ranges::reverse(all);
  return list_value(std::move(all), ListKind::kOnce, budget);
}

Value abs_filter(const Value& value, const Arguments& arguments, Budget&) {
  (void)GivenArguments("abs", arguments, {});
  if (value.is<double>()) return {std::fabs(value.number())};
  if (!value.is_integer()) fault(fmt::format("abs: a number is needed, not {}", type_name(value)));
  if (value.integer() < -std::numeric_limits<std::int64_t>::max()) unsupported("an integer of more than 63 bits");
  return {std::abs(value.integer())};
}

Value safe_filter(const Value& value, const Arguments& arguments, Budget& budget) {
  (void)GivenArguments("safe", arguments, {});
  return as_text_value(value, budget);
}

Value indent_filter(const Value& value, const Arguments& arguments, Budget& budget) {
  const GivenArguments given("indent", arguments, {"width", "first", "blank"});
  constexpr std::int64_t kWidest = 64;
  std::string blanks;
  if (given[0] && given[0]->is_string()) {
    blanks = given.text(0);
  } else {
    const std::int64_t width = given.integer(0, 4);
    if (width > kWidest) unsupported(fmt::format("indent by {}", width));
    blanks.assign(static_cast<std::size_t>(std::max<std::int64_t>(0, width)), ' ');
  }
  const std::string text = text_of(value, budget) + "\n";
  std::string out;
  bool first = true;
  for (const std::string_view line : lines_of(text)) {
    budget.bytes(blanks.size() + line.size());
    if (!first) out += '\n';
    if (first ? given.truth_of(1) : !line.empty() || given.truth_of(2)) out += blanks;
    out += line;
    first = false;
  }
  return string_value(std::move(out), budget);
}

Arguments rest_of(const Arguments& arguments, std::size_t from) {
  return {{arguments.values.begin() + static_cast<std::ptrdiff_t>(std::min(from, arguments.values.size())),
           arguments.values.end()},
          arguments.named};
}

const std::string& name_in(const Arguments& arguments, std::size_t place, const char* what) {
  if (arguments.values.size() <= place || !arguments.values[place].is_string())
    fault(fmt::format("{}: a name in quotes is missing", what));
  return arguments.values[place].string();
}

Value map_filter(const Value& value, const Arguments& arguments, Budget& budget) {
  std::vector<Value> out;
  if (arguments.values.empty() && !arguments.named.empty()) {
    const GivenArguments given("map", arguments, {"attribute", "default"});
    for (const Value& member : members(value, budget)) {
      Value found = path_of(member, given.needed(0), budget);
      if (found.is<Undefined>() && given[1]) found = *given[1];
      out.push_back(std::move(found));
    }
    return list_value(std::move(out), ListKind::kOnce, budget);
  }
  const std::string& name = name_in(arguments, 0, "map");
  check_filter_name(name);
  if (name == "map" || name.starts_with("select") || name.starts_with("reject")) unsupported("map of " + name);
  const Arguments rest = rest_of(arguments, 1);
  for (const Value& member : members(value, budget)) out.push_back(apply_filter(name, member, rest, budget));
  return list_value(std::move(out), ListKind::kOnce, budget);
}

template <bool kAttribute, bool kKeep>
Value select_filter(const Value& value, const Arguments& arguments, Budget& budget) {
  constexpr std::size_t kTest = kAttribute ? 1 : 0;
  if (kAttribute && arguments.values.empty()) fault("selectattr: the attribute is missing");
  const bool tests = arguments.values.size() > kTest;
  if (tests) check_test_name(name_in(arguments, kTest, "select"));
  const Arguments rest = rest_of(arguments, kTest + 1);
  std::vector<Value> out;
  for (const Value& member : members(value, budget)) {
    const Value asked = kAttribute ? path_of(member, arguments.values[0], budget) : member;
    const bool holds = tests ? apply_test(arguments.values[kTest].string(), asked, rest, budget) : truth(asked);
    if (holds == kKeep) out.push_back(member);
  }
  return list_value(std::move(out), ListKind::kOnce, budget);
}

// Text compares without case unless it is asked for.
Value key_of(const Value& value, bool with_case, Budget& budget) {
  return with_case || !value.is_string() ? value : call_method(value, kLower, {}, budget);
}

// The attributes, named with commas between them, that members are compared by; none: the members themselves.
std::vector<Value> attributes_of(const Value* named, Budget& budget) {
  std::vector<Value> out;
  if (!named || named->is<None>()) return out;
  if (!named->is_string()) return {*named};
  for (const std::string_view part : split(named->string(), ",", -1))
    out.push_back(string_value(std::string(part), budget));
  return out;
}

struct Keyed {
  std::vector<Value> keys;
  Value value;
};
std::vector<Keyed> keyed(std::vector<Value> all, const std::vector<Value>& attributes, bool with_case, Budget& budget) {
  std::vector<Keyed> out;
  for (Value& value : all) {
    std::vector<Value> keys;
    keys.reserve(attributes.size() + 1);
    for (const Value& attribute : attributes)
      keys.push_back(key_of(path_of(value, attribute, budget), with_case, budget));
    if (attributes.empty()) keys.push_back(key_of(value, with_case, budget));
    out.push_back({std::move(keys), std::move(value)});
  }
  return out;
}

bool comes_before(const Keyed& left, const Keyed& right, Budget& budget) {
  for (std::size_t i = 0; i < left.keys.size(); ++i)
    if (!equal(left.keys[i], right.keys[i], budget)) return less(left.keys[i], right.keys[i], budget);
  return false;
}

// Equal members keep their order, from the back too.
Value in_order(std::vector<Keyed> all, bool reverse, Budget& budget) {
  std::ranges::stable_sort(all, [&](const Keyed& left, const Keyed& right) {
    return reverse ? comes_before(right, left, budget) : comes_before(left, right, budget);
  });
  std::vector<Value> out;
  out.reserve(all.size());
  for (Keyed& each : all) out.push_back(std::move(each.value));
  return list_value(std::move(out), ListKind::kList, budget);
}

Value sort_filter(const Value& value, const Arguments& arguments, Budget& budget) {
  const GivenArguments given("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const std::vector<Value> attributes = attributes_of(given[2], budget);
  return in_order(keyed(members(value, budget), attributes, given.truth_of(1), budget), given.truth_of(0), budget);
}

Value dictsort_filter(const Value& value, const Arguments& arguments, Budget& budget) {
  const GivenArguments given("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string by = given[1] ? given.text(1) : "key";
  if (by != "key" && by != "value") fault("dictsort: by 'key' or 'value'");
  if (!value.is_dict()) fault(fmt::format("dictsort: a dict is needed, not {}", type_name(value)));
  std::vector<Value> items = members(call_method(value, "items", {}, budget), budget);
  const std::vector<Value> place{{std::int64_t{by == "key" ? 0 : 1}}};
  return in_order(keyed(std::move(items), place, given.truth_of(0), budget), given.truth_of(2), budget);
}

Value unique_filter(const Value& value, const Arguments& arguments, Budget& budget) {
  const GivenArguments given("unique", arguments, {"case_sensitive", "attribute"});
  std::vector<Keyed> kept;
  for (Keyed& each : keyed(members(value, budget), attributes_of(given[1], budget), given.truth_of(0), budget)) {
    for (const Value& key : each.keys)
      if (key.is_dict() || (key.is_list() && key.list().kind != ListKind::kTuple))
        fault(fmt::format("unique: not for {}", type_name(key)));
    const auto same = [&](const Keyed& other) {
      return std::ranges::equal(other.keys, each.keys,
                                [&](const Value& left, const Value& right) { return equal(left, right, budget); });
    };
    if (std::ranges::none_of(kept, same)) kept.push_back(std::move(each));
  }
  std::vector<Value> out;
  out.reserve(kept.size());
  for (Keyed& each : kept) out.push_back(std::move(each.value));
  return list_value(std::move(out), ListKind::kOnce, budget);
}

template <bool kLeast>
Value extreme_filter(const Value& value, const Arguments& arguments, Budget& budget) {
  const GivenArguments given(kLeast ? "min" : "max", arguments, {"case_sensitive", "attribute"});
  const std::vector<Keyed> all =
      keyed(members(value, budget), attributes_of(given[1], budget), given.truth_of(0), budget);
  const Keyed* best = nullptr;
  for (const Keyed& each : all)
    if (!best || (kLeast ? comes_before(each, *best, budget) : comes_before(*best, each, budget))) best = &each;
  return best ? best->value : Value{};
}

Value sum_filter(const Value& value, const Arguments& arguments, Budget& budget) {
  const GivenArguments given("sum", arguments, {"attribute", "start"});
  Value sum = given[1] ? *given[1] : Value{std::int64_t{0}};
  if (sum.is_string()) fault("sum: not for text, which join is for");
  for (const Value& member : members(value, budget))
    sum = calculate("+", sum, given[0] && !given[0]->is<None>() ? path_of(member, *given[0], budget) : member, budget);
  return sum;
}

constexpr Filter kFilters[] = {
    {"abs", abs_filter},
    {"capitalize", by_method<kCapitalize>},
    {"count", length_filter},
    {"d", default_filter},
    {"default", default_filter},
    {"dictsort", dictsort_filter},
    {"first", end_filter<true>},
    {"float", float_filter},
    {"indent", indent_filter},
    {"int", int_filter},
    {"items", items_filter},
    {"join", join_filter},
    {"last", end_filter<false>},
    {"length", length_filter},
    {"list", list_filter},
    {"lower", by_method<kLower>},
    {"map", map_filter},
    {"max", extreme_filter<false>},
    {"min", extreme_filter<true>},
    {"reject", select_filter<false, false>},
    {"rejectattr", select_filter<true, false>},
    {"replace", by_method<kReplace>},
    {"reverse", reverse_filter},
    {"safe", safe_filter},
    {"select", select_filter<false, true>},
    {"selectattr", select_filter<true, true>},
    {"sort", sort_filter},
    {"string", string_filter},
    {"sum", sum_filter},
    {"title", title_filter},
    {"tojson", tojson_filter},
    {"trim", by_method<kStrip>},
    {"unique", unique_filter},
    {"upper", by_method<kUpper>},
};

// What is left when a number is divided by 2, as Python has it: 0 or 1 of an integer.
double half_left(const Value& value) {
  if (!value.is_number()) fault(fmt::format("the test is for numbers, not {}", type_name(value)));
  if (value.is_integer()) return value.integer() % 2 == 0 ? 0 : 1;
  const double left = std::fmod(value.number(), 2);
  return left < 0 ? left + 2 : left;
}

const Value& tested_against(const Arguments& arguments) {
  if (arguments.values.size() != 1 || !arguments.named.empty()) fault("the test takes one value");
  return arguments.values[0];
}

std::int64_t integer_of(const Value& value) {
  if (!value.is_integer()) fault(fmt::format("the test is for integers, not {}", type_name(value)));
  return value.integer();
}

constexpr auto kIsEqual = [](const Value& value, const Arguments& arguments, Budget& budget) {
  return equal(value, tested_against(arguments), budget);
};
constexpr auto kIsUnequal = [](const Value& value, const Arguments& arguments, Budget& budget) {
  return !equal(value, tested_against(arguments), budget);
};
constexpr auto kIsLess = [](const Value& value, const Arguments& arguments, Budget& budget) {
  return less(value, tested_against(arguments), budget);
};
constexpr auto kIsMore = [](const Value& value, const Arguments& arguments, Budget& budget) {
  return less(tested_against(arguments), value, budget);
};
constexpr auto kIsSequence = [](const Value& value, const Arguments&, Budget&) {
  return value.is_string() || value.is_list() || value.is_dict() || value.is<Undefined>();
};

constexpr Test kTests[] = {
    {"defined", [](const Value& value, const Arguments&, Budget&) { return !value.is<Undefined>(); }},
    {"undefined", [](const Value& value, const Arguments&, Budget&) { return value.is<Undefined>(); }},
    {"none", [](const Value& value, const Arguments&, Budget&) { return value.is<None>(); }},
    {"string", [](const Value& value, const Arguments&, Budget&) { return value.is_string(); }},
    {"mapping", [](const Value& value, const Arguments&, Budget&) { return value.is_dict(); }},
    {"iterable", kIsSequence},
    {"sequence", kIsSequence},
    {"number", [](const Value& value, const Arguments&, Budget&) { return value.is_number(); }},
    {"integer", [](const Value& value, const Arguments&, Budget&) { return value.is<std::int64_t>(); }},
    {"float", [](const Value& value, const Arguments&, Budget&) { return value.is<double>(); }},
    {"boolean", [](const Value& value, const Arguments&, Budget&) { return value.is<bool>(); }},
    {"true", [](const Value& value, const Arguments&, Budget&) { return value.is<bool>() && value.integer() != 0; }},
    {"false", [](const Value& value, const Arguments&, Budget&) { return value.is<bool>() && value.integer() == 0; }},
    {"callable",
     [](const Value& value, const Arguments&, Budget&) { return value.is<const Macro*>() || value.is<Function>(); }},
    {"odd", [](const Value& value, const Arguments&, Budget&) { return half_left(value) == 1; }},
    {"even", [](const Value& value, const Arguments&, Budget&) { return half_left(value) == 0; }},
    {"divisibleby",
     [](const Value& value, const Arguments& arguments, Budget&) {
       const std::int64_t by = integer_of(tested_against(arguments));
       if (by == 0) fault("division by 0");
       return by == -1 || integer_of(value) % by == 0;
     }},
    {"in", [](const Value& value, const Arguments& arguments,
              Budget& budget) { return contains(tested_against(arguments), value, budget); }},
    {"eq", kIsEqual},
    {"equalto", kIsEqual},
    {"ne", kIsUnequal},
    {"lt", kIsLess},
    {"lessthan", kIsLess},
    {"gt", kIsMore},
    {"greaterthan", kIsMore},
    {"le", [](const Value& value, const Arguments& arguments,
              Budget& budget) { return !less(tested_against(arguments), value, budget); }},
    {"ge", [](const Value& value, const Arguments& arguments,
              Budget& budget) { return !less(value, tested_against(arguments), budget); }},
};

template <typename Row, std::size_t kCount>
const Row& row_named(const Row (&rows)[kCount], std::string_view name, const char* what) {
  const Row* const found = std::ranges::find(rows, name, &Row::name);
  if (found != std::end(rows)) return *found;
  std::vector<std::string_view> names;
  for (const Row& row : rows) names.push_back(row.name);
  fault(fmt::format("the {} '{}' is not supported; supported: {}", what, name, fmt::join(names, ", ")));
}

}  // namespace

void check_filter_name(std::string_view name) {
  (void)row_named(kFilters, name, "filter");
}

void check_test_name(std::string_view name) {
  (void)row_named(kTests, name, "test");
}

Value apply_filter(std::string_view name, const Value& value, const Arguments& arguments, Budget& budget) {
  budget.steps();
  return row_named(kFilters, name, "filter").apply(value, arguments, budget);
}

bool apply_test(std::string_view name, const Value& value, const Arguments& arguments, Budget& budget) {
  budget.steps();
  return row_named(kTests, name, "test").apply(value, arguments, budget);
}

}  // namespace mlx::infer::jinja
