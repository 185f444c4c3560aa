// Values of templates: those of JSON, as Python has them, and what only templates have. All but namespaces are
// constant. Used by all of jinja/.
//
// What makes or walks values pays for it from a Budget, so that a template's time and memory have limits.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/json_fwd.h"

namespace mlx::infer::jinja {

// What is wrong with a template or with what it does; template.h adds the place.
struct Fault {
  std::string message;
  ErrorKind kind = ErrorKind::kUsage;
};
[[noreturn]] void fault(std::string message);
[[noreturn]] void unsupported(std::string_view what);

class Budget {
 public:
  Budget(std::uint64_t steps, std::uint64_t bytes) : steps_(steps), bytes_(bytes) {}
  void steps(std::uint64_t count = 1) {
    if (count > steps_) fault("the template takes too long");
    steps_ -= count;
  }
  // Of text that is made or searched.
  void bytes(std::uint64_t count) {
    if (count > bytes_) fault("the template makes too much text");
    bytes_ -= count;
  }

 private:
  std::uint64_t steps_, bytes_;
};

struct Value;
struct List;
struct Dict;
struct Namespace;
struct Macro;

struct Undefined {
  const std::string* name = nullptr;  // of the template
};
struct None {};
enum class Function : std::uint8_t { kRange, kNamespace, kDict, kRaise, kTime };

struct Value {
  // Namespaces and macros belong to the rendering, so that no cycle keeps itself.
  using Held =
      std::variant<Undefined, None, bool, std::int64_t, double, std::shared_ptr<const std::string>,
                   std::shared_ptr<const List>, std::shared_ptr<const Dict>, Namespace*, const Macro*, Function>;
  Held held;

  template <typename T>
  bool is() const {
    return std::holds_alternative<T>(held);
  }
  bool is_string() const { return is<std::shared_ptr<const std::string>>(); }
  bool is_list() const { return is<std::shared_ptr<const List>>(); }  // of any form
  bool is_dict() const { return is<std::shared_ptr<const Dict>>(); }
  bool is_integer() const { return is<std::int64_t>() || is<bool>(); }
  bool is_number() const { return is_integer() || is<double>(); }
  const std::string& string() const { return *std::get<std::shared_ptr<const std::string>>(held); }
  const List& list() const { return *std::get<std::shared_ptr<const List>>(held); }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(held); }
  std::int64_t integer() const { return is<bool>() ? std::get<bool>(held) : std::get<std::int64_t>(held); }
  double number() const { return is<double>() ? std::get<double>(held) : static_cast<double>(integer()); }
};

// Of what is like a list: what only can be walked, as dict.items() gives, and walked once, as the filter map gives.
enum class ListKind : std::uint8_t { kList, kTuple, kView, kOnce };
struct List {
  std::vector<Value> items;
  ListKind kind = ListKind::kList;
  int depth = 1;
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;     // in the order in which they were put
  std::map<std::string_view, std::size_t> names;  // keys that are text
  int depth = 1;

  const Value* find(std::string_view name) const;
};

struct Namespace {
  std::map<std::string, Value, std::less<>> values;
};

Value string_value(std::string text, Budget& budget);
Value list_value(std::vector<Value> items, ListKind kind, Budget& budget);
// The last of equal keys counts, in the place of the first.
Value dict_value(const std::vector<std::pair<Value, Value>>& items, Budget& budget);
Value value_of(const Json& json, Budget& budget);

const char* type_name(const Value& value);  // "str", "list"
void need_list(const Value& value);         // throws Fault for what only can be walked
bool truth(const Value& value);
bool equal(const Value& left, const Value& right, Budget& budget);
// As Python's `left < right`.
bool less(const Value& left, const Value& right, Budget& budget);
bool contains(const Value& holder, const Value& item, Budget& budget);
const Value* item_of(const Dict& dict, const Value& key, Budget& budget);
// The members that a loop over `value` has: items, keys, characters.
std::vector<Value> members(const Value& value, Budget& budget);
std::int64_t length(const Value& value, Budget& budget);
Value slice(const Value& value, const Value& start, const Value& stop, const Value& step, Budget& budget);
// The item at a place, from the end if it is negative; undefined where there is none.
Value item_at(const Value& value, std::int64_t place, Budget& budget);

// str(value) of Python.
std::string text_of(const Value& value, Budget& budget);
// json.dumps(value, ensure_ascii=False) of Python; `indent`: blanks a level, or -1 for one line.
std::string json_text(const Value& value, int indent, bool sort_keys, Budget& budget);

}  // namespace mlx::infer::jinja
