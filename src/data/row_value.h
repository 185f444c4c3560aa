// A table's cell as a value, whatever the table's format. Used by the readers of rows.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "data/readers/plain_number.h"
#include "data/rows.h"

namespace mlx::data {

struct RowValue {
  enum class Kind : std::uint8_t { kMissing, kNumber, kText } kind = Kind::kMissing;
  double number = 0;
  // As written, trimmed; a JSON string is unescaped. Empty for a number of a format with types unless asked for. Valid
  // until the next cell is read.
  std::string_view text;
};

// Interprets cells. If a cell cannot be a value (a list, an object, a number that is not finite or too large for a
// float), wrong() tells why.
class CellReader {
 public:
  explicit CellReader(TableKind kind) : kind_(kind) {}
  RowValue read(const Cell& cell, bool with_text = true);
  // The fast way for what most tables hold: a plain number that fits a float. False for all else, which read() reads.
  static bool read_number(const Cell& cell, double& value) {
    return cell.padded && read_padded_number(cell.text, value) && std::abs(value) <= std::numeric_limits<float>::max();
  }
  std::string_view text_of(const Cell& cell) { return data::text_of(cell, buffer_); }
  const char* wrong() const { return wrong_; }  // for the last cell; null if it was fine

 private:
  RowValue read_csv(std::string_view cell);
  RowValue read_json(std::string_view cell);
  RowValue number(double value, std::string_view text);
  static RowValue text(std::string_view text);

  TableKind kind_;
  std::string buffer_;
  std::string unescaped_;
  const char* wrong_ = nullptr;
};

// How messages name a row of the table: "line", "row".
const char* row_word(const RowFile& file);
// An error whose message names the table's file already.
struct TableError : Error {
  using Error::Error;
};
// Throws "FILE: line N: WHY" as kCorrupt, as a TableError, for the row that begins at `offset`.
[[noreturn]] void fail_at_row(const RowFile& file, std::uint64_t offset, const std::string& why);
// Runs `work`, which reads the table. Its errors become errors that name the file.
template <typename Work>
auto in_table(const RowFile& file, Work&& work) {
  try {
    return work();
  } catch (const SourceDamaged& damaged) {
    throw damaged.error;
  } catch (const TableError&) {
    throw;
  } catch (Error& error) {
    // Streams of compressed text and of UTF-16 name the file themselves.
    const bool named = error.message.starts_with(file.name + ": ");
    if (error.kind == ErrorKind::kCorrupt && !named) error.message = file.name + ": " + error.message;
    throw;
  }
}

}  // namespace mlx::data
