// Values of Parquet's types in the PLAIN encoding: many integers and floats at once, all else cell by cell. Used by the
// reader of a column's pages for data and for dictionaries.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "data/readers/table.h"
#include "formats/parquet.h"

namespace mlx::data {

// What the values of a column are, if there are any: all integers, all floats, or cells of several forms (text).
enum class ParquetForm : std::uint8_t { kIntegers, kFloats, kCells };
ParquetForm form_of(const formats::ParquetColumn& column);

// Values of one column. Its form says which of them are used.
struct ParquetPlain {
  std::vector<std::int64_t> integers;
  std::vector<double> floats;
  std::vector<Cell> cells;
  std::deque<std::string> texts;  // that cells point to, unless their text stands in the page
};

// A copy goes on at the same value. The bytes and the column outlive it.
class ParquetPlainReader {
 public:
  ParquetPlainReader() = default;
  ParquetPlainReader(const formats::ParquetColumn& column, ByteView bytes) : column_(&column), bytes_(bytes) {}

  void read(std::size_t count, ParquetPlain& to);  // replaces what `to` holds; kCorrupt at a damaged value
  bool next_bit();                                 // of booleans
  ByteView take(std::size_t count);                // bytes that are no values; kCorrupt if there are fewer
  ByteView rest() const { return bytes_; }

 private:
  void read_integers(std::size_t count, std::int64_t* to);
  void read_floats(std::size_t count, double* to);
  void read_cell(Cell& cell, std::string& text);
  void read_time(ByteView raw, Cell& cell, std::string& text) const;
  double next_decimal();

  const formats::ParquetColumn* column_ = nullptr;
  ByteView bytes_;       // not read
  std::size_t bit_ = 0;  // of booleans: the next one in bytes_
};

// Throws "column 'NAME': WHY" as kCorrupt.
[[noreturn]] void fail_in_column(const formats::ParquetColumn& column, const std::string& why);
Cell bool_cell(bool value);
Cell null_cell();

}  // namespace mlx::data
