// Values, and what Python's operators do with them.
#include "infer/jinja/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/json.h"
#include "data/subword/utf8.h"
#include "infer/jinja/text.h"

namespace mlx::infer::jinja {
namespace {

constexpr int kDeepest = 150;

int depth_of(const Value& value) {
  return value.is_list() ? value.list().depth : value.is_dict() ? value.dict().depth : 0;
}

int deeper(int depth, const Value& value) {
  depth = std::max(depth, 1 + depth_of(value));
  if (depth > kDeepest) fault(fmt::format("values in values, {} deep", depth));
  return depth;
}

bool equal_lists(const List& left, const List& right, Budget& budget) {
  if (left.kind != right.kind || left.items.size() != right.items.size()) return false;
  for (std::size_t i = 0; i < left.items.size(); ++i)
    if (!equal(left.items[i], right.items[i], budget)) return false;
  return true;
}

// The item with this key; the number of items if there is none.
std::size_t place_of(const Dict& dict, const Value& key, Budget& budget) {
  if (key.is_string()) {
    const auto found = dict.names.find(key.string());
    return found == dict.names.end() ? dict.items.size() : found->second;
  }
  if (key.is_list() && key.list().kind == ListKind::kTuple) return dict.items.size();  // no dict here has such keys
  if (key.is_list() || key.is_dict()) fault(fmt::format("{} is no key", type_name(key)));
  if (dict.names.size() == dict.items.size()) return dict.items.size();
  const auto found = std::ranges::find_if(dict.items, [&](const auto& item) { return equal(item.first, key, budget); });
  return static_cast<std::size_t>(found - dict.items.begin());
}

bool equal_dicts(const Dict& left, const Dict& right, Budget& budget) {
  if (left.items.size() != right.items.size()) return false;
  for (const auto& [key, value] : left.items) {
    const Value* const other = item_of(right, key, budget);
    if (!other || !equal(value, *other, budget)) return false;
  }
  return true;
}

// By the first items that differ.
bool less_lists(const List& left, const List& right, Budget& budget) {
  for (std::size_t i = 0; i < std::min(left.items.size(), right.items.size()); ++i)
    if (!equal(left.items[i], right.items[i], budget)) return less(left.items[i], right.items[i], budget);
  return left.items.size() < right.items.size();
}

// Whether an integer and a float are the same number.
bool equal_numbers(const Value& left, const Value& right) {
  if (left.is_integer() && right.is_integer()) return left.integer() == right.integer();
  return left.number() == right.number();
}

// Where a slice of `size` items begins or ends.
std::int64_t bound(const Value& value, std::int64_t otherwise, std::int64_t size, bool backwards) {
  if (value.is<None>()) return otherwise;
  if (!value.is_integer()) fault(fmt::format("a slice's bounds are integers, not {}", type_name(value)));
  std::int64_t at = value.integer();
  if (at < 0) at += size;
  return std::clamp<std::int64_t>(at, backwards ? -1 : 0, backwards ? size - 1 : size);
}

}  // namespace

void fault(std::string message) {
  throw Fault{std::move(message)};
}

void unsupported(std::string_view what) {
  throw Fault{fmt::format("{} is not supported", what)};
}

void need_list(const Value& value) {
  if (value.is_list() && value.list().kind >= ListKind::kView)
    unsupported(fmt::format("a {} for a list (the filter 'list' makes one)", type_name(value)));
}

const Value* Dict::find(std::string_view name) const {
  const auto found = names.find(name);
  return found == names.end() ? nullptr : &items[found->second].second;
}

Value string_value(std::string text, Budget& budget) {
  budget.bytes(text.size());
  return {std::make_shared<const std::string>(std::move(text))};
}

Value list_value(std::vector<Value> items, ListKind kind, Budget& budget) {
  budget.steps(items.size());
  auto list = std::make_shared<List>();
  for (const Value& item : items) list->depth = deeper(list->depth, item);
  list->items = std::move(items);
  list->kind = kind;
  return {std::shared_ptr<const List>(std::move(list))};
}

Value dict_value(const std::vector<std::pair<Value, Value>>& items, Budget& budget) {
  budget.steps(items.size());
  auto dict = std::make_shared<Dict>();
  dict->items.reserve(items.size());
  for (const auto& [key, value] : items) {
    if (!(key.is_string() || key.is_number() || key.is<None>()))
      unsupported(fmt::format("a key of type {}", type_name(key)));
    dict->depth = deeper(dict->depth, value);
    const std::size_t place = place_of(*dict, key, budget);
    if (place < dict->items.size()) {
      dict->items[place].second = value;
      continue;
    }
    dict->items.emplace_back(key, value);
    if (key.is_string()) dict->names.emplace(dict->items.back().first.string(), place);
  }
  return {std::shared_ptr<const Dict>(std::move(dict))};
}

Value value_of(const Json& json, Budget& budget) {
  budget.steps();
  if (json.is_null()) return {None{}};
  if (json.is_boolean()) return {json.get<bool>()};
  if (json.is_number_unsigned() &&
      json.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    unsupported("an integer of more than 63 bits");
  if (json.is_number_integer()) return {json.get<std::int64_t>()};
  if (json.is_number()) return {json.get<double>()};
  if (json.is_string()) return string_value(json.get<std::string>(), budget);
  if (json.is_array()) {
    std::vector<Value> items;
    for (const Json& item : json) items.push_back(value_of(item, budget));
    return list_value(std::move(items), ListKind::kList, budget);
  }
  std::vector<std::pair<Value, Value>> items;
  for (const auto& [key, item] : json.items()) items.emplace_back(string_value(key, budget), value_of(item, budget));
  return dict_value(items, budget);
}

const char* type_name(const Value& value) {
  constexpr const char* kNames[] = {"undefined", "None", "bool",      "int",   "float",   "str",
                                    "list",      "dict", "namespace", "macro", "function"};
  constexpr const char* kForms[] = {"list", "tuple", "view", "generator"};
  if (value.is_list()) return kForms[static_cast<int>(value.list().kind)];
  return kNames[value.held.index()];
}

bool truth(const Value& value) {
  if (value.is<Undefined>() || value.is<None>()) return false;
  if (value.is_number()) return value.number() != 0;
  if (value.is_string()) return !value.string().empty();
  if (value.is_list()) return !value.list().items.empty() || value.list().kind == ListKind::kOnce;
  if (value.is_dict()) return !value.dict().items.empty();
  return true;
}

bool equal(const Value& left, const Value& right, Budget& budget) {
  budget.steps();
  if (left.is_number() && right.is_number()) return equal_numbers(left, right);
  if (left.held.index() != right.held.index()) return false;
  if (left.is_string()) {
    budget.bytes(std::min(left.string().size(), right.string().size()) / 16);
    return left.string() == right.string();
  }
  if (left.is_list()) return equal_lists(left.list(), right.list(), budget);
  if (left.is_dict()) return equal_dicts(left.dict(), right.dict(), budget);
  if (left.is<Namespace*>()) return std::get<Namespace*>(left.held) == std::get<Namespace*>(right.held);
  if (left.is<const Macro*>()) return std::get<const Macro*>(left.held) == std::get<const Macro*>(right.held);
  if (left.is<Function>()) return std::get<Function>(left.held) == std::get<Function>(right.held);
  return true;  // undefined, None
}

bool less(const Value& left, const Value& right, Budget& budget) {
  budget.steps();
  if (left.is_integer() && right.is_integer()) return left.integer() < right.integer();
  if (left.is_number() && right.is_number()) return left.number() < right.number();
  if (left.is_list() && right.is_list() && left.list().kind == right.list().kind)
    return less_lists(left.list(), right.list(), budget);
  if (!left.is_string() || !right.is_string())
    fault(fmt::format("{} and {} have no order", type_name(left), type_name(right)));
  budget.bytes(std::min(left.string().size(), right.string().size()) / 16);
  return left.string() < right.string();
}

bool contains(const Value& holder, const Value& item, Budget& budget) {
  budget.steps();
  if (holder.is<Undefined>()) return false;
  if (holder.is_string()) {
    if (!item.is_string()) fault(fmt::format("a text holds texts, not {}", type_name(item)));
    const std::string &text = holder.string(), &part = item.string();
    budget.bytes(text.size() / 4);
    return find_text(text, part) != std::string_view::npos;
  }
  if (holder.is_dict()) return item_of(holder.dict(), item, budget) != nullptr;
  if (!holder.is_list()) fault(fmt::format("{} holds no members", type_name(holder)));
  return std::ranges::any_of(holder.list().items, [&](const Value& member) { return equal(member, item, budget); });
}

const Value* item_of(const Dict& dict, const Value& key, Budget& budget) {
  const std::size_t place = place_of(dict, key, budget);
  return place < dict.items.size() ? &dict.items[place].second : nullptr;
}

std::vector<Value> members(const Value& value, Budget& budget) {
  std::vector<Value> out;
  if (value.is<Undefined>()) return out;
  if (value.is_list()) {
    budget.steps(value.list().items.size());
    return value.list().items;
  }
  if (value.is_dict()) {
    budget.steps(value.dict().items.size());
    for (const auto& [key, item] : value.dict().items) out.push_back(key);
    return out;
  }
  if (!value.is_string()) fault(fmt::format("{} has no members", type_name(value)));
  const std::string& text = value.string();
  budget.steps(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = data::subword::character_at(text, at).bytes;
    out.push_back(string_value(text.substr(at, size), budget));
    at += size;
  }
  return out;
}

std::int64_t length(const Value& value, Budget& budget) {
  if (value.is<Undefined>()) return 0;
  if (value.is_list()) {
    if (value.list().kind == ListKind::kOnce) need_list(value);
    return static_cast<std::int64_t>(value.list().items.size());
  }
  if (value.is_dict()) return static_cast<std::int64_t>(value.dict().items.size());
  if (!value.is_string()) fault(fmt::format("{} has no length", type_name(value)));
  budget.bytes(value.string().size() / 4);
  return characters(value.string());
}

Value slice(const Value& value, const Value& start, const Value& stop, const Value& step, Budget& budget) {
  if (!value.is_list() && !value.is_string()) fault(fmt::format("{} has no slices", type_name(value)));
  need_list(value);
  if (!step.is<None>() && !step.is_integer()) fault("a slice's step is an integer");
  const std::int64_t by = step.is<None>() ? 1 : step.integer();
  if (by == 0) fault("a slice's step is 0");
  const std::vector<Value> all = members(value, budget);
  const auto size = static_cast<std::int64_t>(all.size());
  const std::int64_t from = bound(start, by > 0 ? 0 : size - 1, size, by < 0),
                     to = bound(stop, by > 0 ? size : -1, size, by < 0);
  std::vector<Value> taken;
  for (std::int64_t at = from; by > 0 ? at < to : at > to;) {
    taken.push_back(all[static_cast<std::size_t>(at)]);
    if (by > 0 ? by >= to - at : by <= to - at) break;
    at += by;
  }
  if (value.is_list()) return list_value(std::move(taken), value.list().kind, budget);
  std::string text;
  for (const Value& character : taken) text += character.string();
  return string_value(std::move(text), budget);
}

Value item_at(const Value& value, std::int64_t place, Budget& budget) {
  need_list(value);
  if (value.is_list()) {
    const auto& items = value.list().items;
    const auto size = static_cast<std::int64_t>(items.size());
    if (place < 0 ? place < -size : place >= size) return {};
    return items[static_cast<std::size_t>(place < 0 ? place + size : place)];
  }
  const std::vector<Value> all = members(value, budget);
  const auto size = static_cast<std::int64_t>(all.size());
  if (place < 0 ? place < -size : place >= size) return {};
  return all[static_cast<std::size_t>(place < 0 ? place + size : place)];
}

}  // namespace mlx::infer::jinja
