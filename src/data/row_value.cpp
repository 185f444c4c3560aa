// Cells of CSV and of JSON lines as values.

#include "data/row_value.h"

#include <charconv>
#include <cmath>
#include <limits>

#include "base/json.h"

namespace mlx::data {
namespace {

// For text that type_of() has found to be a number.
double number_of(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    return text.find("e-") != text.npos || text.find("E-") != text.npos ? 0.0 : HUGE_VAL;
  return error == std::errc() && end == text.data() + text.size() ? value : std::nan("");
}

}  // namespace

RowValue CellReader::read(std::string_view cell) {
  wrong_ = nullptr;
  if (kind_ != TableKind::kJsonLines) cell = trimmed(cell);
  RowValue value;
  value.text = cell;
  switch (type_of(cell, kind_)) {
    case ValueType::kNull:
      return value;
    case ValueType::kInt:
    case ValueType::kFloat:
      value.number = number_of(cell);
      if (std::isnan(value.number)) return value;  // many programs write a missing number as "nan"
      if (std::isinf(value.number)) {
        wrong_ = "is not a finite number";
      } else if (std::abs(value.number) > double{std::numeric_limits<float>::max()}) {
        wrong_ = "is beyond 3.4e38, the largest f32 number";
      }
      value.kind = RowValue::Kind::kNumber;
      return value;
    case ValueType::kList:
      wrong_ = "is a list, expected a number or text";
      break;
    case ValueType::kObject:
      wrong_ = "is an object, expected a number or text";
      break;
    case ValueType::kText:
      if (kind_ == TableKind::kJsonLines) {
        value.text = cell.substr(1, cell.size() - 2);
        if (value.text.find('\\') != std::string_view::npos) {
          unescaped_ = parse_json(cell, "cell").get<std::string>();
          value.text = unescaped_;
        }
        value.text = trimmed(value.text);
        if (is_missing(value.text)) return value;
      }
      break;
    case ValueType::kBool:
    case ValueType::kMixed:
      break;
  }
  value.kind = RowValue::Kind::kText;
  return value;
}

void fail_at_row(const RowFile& file, std::uint64_t offset, const std::string& why) {
  const std::uint64_t line = lines_of(*file.open(), {offset})[0];
  throw TableError(ErrorKind::kCorrupt, fmt::format("{}: {} {}: {}", file.name, file.row_word, line, why));
}

}  // namespace mlx::data
