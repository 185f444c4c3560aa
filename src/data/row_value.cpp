// Cells of all formats as values.

#include "data/row_value.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/json.h"
#include "data/readers/table_format.h"

namespace mlx::data {
namespace {

// For text that type_of() has found to be a number.
double number_of(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range) return std::strtod(std::string(text).c_str(), nullptr);  // 0 or infinity
  return error == std::errc() && end == text.data() + text.size() ? value : std::nan("");
}

}  // namespace

RowValue CellReader::number(double value, std::string_view text) {
  if (std::isnan(value)) return {};  // many programs write a missing number as "nan"
  if (std::isinf(value)) {
    wrong_ = "is not a finite number";
  } else if (std::abs(value) > double{std::numeric_limits<float>::max()}) {
    wrong_ = "is beyond 3.4e38, the largest f32 number";
  }
  return {RowValue::Kind::kNumber, value, text};
}

RowValue CellReader::text(std::string_view text) {
  text = trimmed(text);
  if (is_missing(text)) return {};
  return {RowValue::Kind::kText, 0, text};
}

RowValue CellReader::read(const Cell& cell, bool with_text) {
  wrong_ = nullptr;
  switch (cell.form) {
    case Cell::Form::kWritten:
      break;
    case Cell::Form::kNull:
      return {};
    case Cell::Form::kInt:
      return number(static_cast<double>(cell.integer), with_text ? text_of(cell) : "");
    case Cell::Form::kFloat:
      return number(cell.number, with_text ? text_of(cell) : "");
    case Cell::Form::kBool:
    case Cell::Form::kText:
      return text(cell.text);
  }
  if (kind_ == TableKind::kJsonLines) return read_json(cell.text);
  double plain = 0;
  if (read_plain_number(cell.text, plain)) return number(plain, cell.text);
  return read_csv(trimmed(cell.text));
}

RowValue CellReader::read_csv(std::string_view cell) {
  switch (type_of(cell, TableKind::kCsv)) {
    case ValueType::kNull:
      return {RowValue::Kind::kMissing, 0, cell};
    case ValueType::kInt:
    case ValueType::kFloat:
      return number(number_of(cell), cell);
    default:
      return {RowValue::Kind::kText, 0, cell};
  }
}

RowValue CellReader::read_json(std::string_view cell) {
  switch (type_of(cell, TableKind::kJsonLines)) {
    case ValueType::kNull:
      return {RowValue::Kind::kMissing, 0, cell};
    case ValueType::kInt:
    case ValueType::kFloat:
      return number(number_of(cell), cell);
    case ValueType::kText: {
      const std::string_view inside = cell.substr(1, cell.size() - 2);
      if (inside.find('\\') == std::string_view::npos) return text(inside);
      unescaped_ = parse_json(cell, "cell").get<std::string>();
      return text(unescaped_);
    }
    case ValueType::kList:
      wrong_ = "is a list, expected a number or text";
      break;
    case ValueType::kObject:
      wrong_ = "is an object, expected a number or text";
      break;
    case ValueType::kBool:
    case ValueType::kMixed:
      break;
  }
  return {RowValue::Kind::kText, 0, cell};
}

const char* row_word(const RowFile& file) {
  const char* const word = table_format(file.kind).row_word;
  return std::string_view(word) == "line" ? file.row_word : word;
}

void fail_at_row(const RowFile& file, std::uint64_t offset, const std::string& why) {
  const std::uint64_t line = lines_of(*file.open(), {offset}, file.kind)[0];
  throw TableError(ErrorKind::kCorrupt, fmt::format("{}: {} {}: {}", file.name, row_word(file), line, why));
}

}  // namespace mlx::data
