// Values as text: as Python's str() and json.dumps() write them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "infer/jinja/text.h"
#include "infer/jinja/value.h"

namespace mlx::infer::jinja {
namespace {

constexpr std::uint64_t kScalar = 24;  // bytes, at most, of what is no text

void append_value(std::string& to, const Value& value, Budget& budget);

void append_list(std::string& to, const List& list, Budget& budget) {
  to += list.kind == ListKind::kTuple ? '(' : '[';
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) to += ", ";
    append_value(to, list.items[i], budget);
  }
  if (list.kind == ListKind::kTuple && list.items.size() == 1) to += ',';
  to += list.kind == ListKind::kTuple ? ')' : ']';
}

void append_dict(std::string& to, const Dict& dict, Budget& budget) {
  to += '{';
  for (std::size_t i = 0; i < dict.items.size(); ++i) {
    if (i > 0) to += ", ";
    append_value(to, dict.items[i].first, budget);
    to += ": ";
    append_value(to, dict.items[i].second, budget);
  }
  to += '}';
}

// repr(value), text in quotes.
void append_value(std::string& to, const Value& value, Budget& budget) {
  budget.steps();
  budget.bytes(value.is_string() ? value.string().size() + 2 : kScalar);
  if (value.is<None>()) {
    to += "None";
  } else if (value.is<bool>()) {
    to += value.integer() != 0 ? "True" : "False";
  } else if (value.is_integer()) {
    to += fmt::format("{}", value.integer());
  } else if (value.is<double>()) {
    to += number_text(value.number());
  } else if (value.is_string()) {
    append_repr(to, value.string());
  } else if (value.is_list()) {
    need_list(value);
    append_list(to, value.list(), budget);
  } else if (value.is_dict()) {
    append_dict(to, value.dict(), budget);
  } else if (value.is<Undefined>()) {
    to += "Undefined";
  } else {
    unsupported(fmt::format("text of a {}", type_name(value)));
  }
}

// One value's JSON: what is written so far, and how.
struct JsonWriter {
  std::string out;
  int indent;
  bool sort_keys;
  Budget& budget;

  void append_text(std::string_view text) {
    constexpr std::string_view kLetters = "\"\\\b\f\n\r\t", kEscapes = "\"\\bfnrt";
    budget.bytes(text.size() + 2);
    out += '"';
    for (const char c : text) {
      if (const std::size_t known = kLetters.find(c); known != std::string_view::npos) {
        out += '\\';
        out += kEscapes[known];
      } else if (static_cast<unsigned char>(c) < 0x20) {
        out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      } else {
        out += c;
      }
    }
    out += '"';
  }

  void begin_line(int level) {
    if (indent < 0) return;
    budget.bytes(static_cast<std::uint64_t>(indent) * static_cast<std::uint64_t>(level));
    out += '\n';
    out.append(static_cast<std::size_t>(indent) * static_cast<std::size_t>(level), ' ');
  }

  void append_list(const List& list, int level) {
    if (list.items.empty()) {
      out += "[]";
      return;
    }
    out += '[';
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out += indent < 0 ? ", " : ",";
      begin_line(level + 1);
      append(list.items[i], level + 1);
    }
    begin_line(level);
    out += ']';
  }

  void append_dict(const Dict& dict, int level) {
    if (dict.items.empty()) {
      out += "{}";
      return;
    }
    std::vector<const std::pair<Value, Value>*> items;
    for (const auto& item : dict.items) items.push_back(&item);
    if (sort_keys)
      std::ranges::stable_sort(items,
                               [this](const auto* a, const auto* b) { return less(a->first, b->first, budget); });
    out += '{';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out += indent < 0 ? ", " : ",";
      begin_line(level + 1);
      append_key(items[i]->first);
      out += ": ";
      append(items[i]->second, level + 1);
    }
    begin_line(level);
    out += '}';
  }

  void append_key(const Value& key) {
    if (key.is_string()) return append_text(key.string());
    out += '"';
    append(key, 0);
    out += '"';
  }

  void append(const Value& value, int level) {
    budget.steps();
    budget.bytes(kScalar);
    if (value.is<None>()) {
      out += "null";
    } else if (value.is<bool>()) {
      out += value.integer() != 0 ? "true" : "false";
    } else if (value.is_integer()) {
      out += fmt::format("{}", value.integer());
    } else if (value.is<double>()) {
      const double number = value.number();
      out += std::isnan(number)   ? "NaN"
             : std::isinf(number) ? (number > 0 ? "Infinity" : "-Infinity")
                                  : number_text(number);
    } else if (value.is_string()) {
      append_text(value.string());
    } else if (value.is_list()) {
      need_list(value);
      append_list(value.list(), level);
    } else if (value.is_dict()) {
      append_dict(value.dict(), level);
    } else {
      fault(fmt::format("{} cannot be JSON", type_name(value)));
    }
  }
};

}  // namespace

std::string text_of(const Value& value, Budget& budget) {
  if (value.is<Undefined>()) return {};
  std::string text;
  if (value.is_string()) {
    budget.bytes(value.string().size());
    return value.string();
  }
  append_value(text, value, budget);
  return text;
}

std::string json_text(const Value& value, int indent, bool sort_keys, Budget& budget) {
  JsonWriter writer{{}, indent, sort_keys, budget};
  writer.append(value, 0);
  return std::move(writer.out);
}

}  // namespace mlx::infer::jinja
