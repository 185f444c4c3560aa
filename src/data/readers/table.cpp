// Types of cells, and line numbers.
#include "data/readers/table.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "data/readers/table_format.h"

namespace mlx::data {
namespace {

bool is_ascii_digit(char c) {
  return c >= '0' && c <= '9';
}

std::size_t digits(std::string_view text, std::size_t at) {
  std::size_t count = 0;
  while (at + count < text.size() && is_ascii_digit(text[at + count])) ++count;
  return count;
}

// Numbers as data writes them: 12, -3, 0.5, .5, 1e-3. A leading needless 0 (a postal code) makes it text.
ValueType type_of_number(std::string_view text) {
  std::size_t at = text[0] == '-' || text[0] == '+' ? 1 : 0;
  const std::size_t whole = digits(text, at);
  if (whole > 1 && text[at] == '0') return ValueType::kText;
  at += whole;
  if (at == text.size()) return whole > 0 ? ValueType::kInt : ValueType::kText;
  if (text[at] == '.') {
    const std::size_t fraction = digits(text, at + 1);
    if (whole + fraction == 0) return ValueType::kText;
    at += 1 + fraction;
  } else if (whole == 0) {
    return ValueType::kText;
  }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    const std::size_t exponent = digits(text, at);
    if (exponent == 0) return ValueType::kText;
    at += exponent;
  }
  return at == text.size() ? ValueType::kFloat : ValueType::kText;
}

bool is_word(std::string_view text, std::string_view word) {
  return std::ranges::equal(text, word, {}, [](char c) { return std::tolower(static_cast<unsigned char>(c)); });
}

bool is_infinity(std::string_view text) {
  if (text[0] == '-' || text[0] == '+') text.remove_prefix(1);
  return is_word(text, "inf") || is_word(text, "infinity");
}

ValueType type_of_csv(std::string_view cell) {
  cell = trimmed(cell);
  if (!cell.empty() && is_ascii_digit(cell[0])) return type_of_number(cell);
  if (is_missing(cell)) return ValueType::kNull;
  if (is_infinity(cell)) return ValueType::kFloat;
  const char first = cell[0];
  if (first == '-' || first == '+' || first == '.') return type_of_number(cell);
  if (is_word(cell, "true") || is_word(cell, "false")) return ValueType::kBool;
  return ValueType::kText;
}

ValueType type_of_json(std::string_view cell) {
  if (cell.empty()) return ValueType::kNull;
  switch (cell[0]) {
    case 'n':
      return ValueType::kNull;
    case 't':
    case 'f':
      return ValueType::kBool;
    case '"':
      return ValueType::kText;
    case '[':
      return ValueType::kList;
    case '{':
      return ValueType::kObject;
    default:
      return cell.find_first_of(".eE") == std::string_view::npos ? ValueType::kInt : ValueType::kFloat;
  }
}

}  // namespace

std::string_view trimmed(std::string_view cell) {
  const auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!cell.empty() && blank(cell.front())) cell.remove_prefix(1);
  while (!cell.empty() && blank(cell.back())) cell.remove_suffix(1);
  return cell;
}

bool is_missing(std::string_view cell) {
  if (cell.size() > 4) return false;
  if (cell.empty() || cell == "-") return true;
  return std::ranges::any_of(std::array{"na", "n/a", "null", "nan", "-nan"},
                             [&](const char* word) { return is_word(cell, word); });
}

const char* name_of(ValueType type) {
  constexpr std::array<const char*, 8> kNames = {"null", "bool", "int", "float", "text", "list", "object", "mixed"};
  return kNames[static_cast<std::size_t>(type)];
}

ValueType join(ValueType a, ValueType b, TableKind kind) {
  if (a == b || b == ValueType::kNull) return a;
  if (a == ValueType::kNull) return b;
  const bool numbers =
      (a == ValueType::kInt || a == ValueType::kFloat) && (b == ValueType::kInt || b == ValueType::kFloat);
  if (numbers) return ValueType::kFloat;
  return kind == TableKind::kJsonLines ? ValueType::kMixed : ValueType::kText;
}

ValueType type_of(std::string_view cell, TableKind kind) {
  return kind == TableKind::kJsonLines ? type_of_json(cell) : type_of_csv(cell);
}

ValueType type_of(const Cell& cell, TableKind kind) {
  switch (cell.form) {
    case Cell::Form::kNull:
      return ValueType::kNull;
    case Cell::Form::kBool:
      return ValueType::kBool;
    case Cell::Form::kInt:
      return ValueType::kInt;
    case Cell::Form::kFloat:
      return ValueType::kFloat;
    case Cell::Form::kText:
      return ValueType::kText;
    case Cell::Form::kWritten:
      break;
  }
  return type_of(cell.text, kind);
}

std::string_view text_of(const Cell& cell, std::string& buffer) {
  if (cell.form != Cell::Form::kInt && cell.form != Cell::Form::kFloat) return cell.text;
  buffer.resize(32);
  char* const begin = buffer.data();
  const auto done = cell.form == Cell::Form::kInt ? std::to_chars(begin, begin + buffer.size(), cell.integer)
                                                  : std::to_chars(begin, begin + buffer.size(), cell.number);
  buffer.resize(static_cast<std::size_t>(done.ptr - begin));
  return buffer;
}

Cell ColumnBlock::cell(std::size_t row) const {
  if (cells) return cells[codes ? codes[row] : row];
  Cell cell;
  cell.form = Cell::Form::kNull;
  if (integers && !(present && present[row] == 0)) {
    cell.form = Cell::Form::kInt;
    cell.integer = integers[row];
  } else if (floats && !std::isnan(floats[row])) {
    cell.form = Cell::Form::kFloat;
    cell.number = floats[row];
  }
  return cell;
}

std::unique_ptr<TableReader> read_table(std::unique_ptr<Source> source, TableKind kind, const std::string& table) {
  const TableFormat& format = table_format(kind);
  if (!table.empty() && !format.has_tables)
    throw Error(ErrorKind::kUsage,
                fmt::format("{} files have no tables with names: 'table' is for SQLite", format.name),
                "leave out 'table' in dataset.toml");
  return format.open(std::move(source), table);
}

std::vector<std::uint64_t> lines_of(const Source& source, const std::vector<std::uint64_t>& offsets, TableKind kind) {
  std::vector<std::uint64_t> lines;
  if (table_format(kind).recognises) {  // formats with a mark have numbered rows
    for (const std::uint64_t offset : offsets) lines.push_back(offset + 1);
    return lines;
  }
  std::vector<char> block(std::size_t{1} << 20);
  std::uint64_t at = 0, line = 1;
  for (const std::uint64_t offset : offsets) {
    while (at < offset) {
      const std::size_t got = source.read_at(
          at, block.data(), static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), offset - at)));
      if (got == 0) break;
      line +=
          static_cast<std::uint64_t>(std::count(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(got), '\n'));
      at += got;
    }
    lines.push_back(line);
  }
  return lines;
}

}  // namespace mlx::data
