// One cell as a value, whatever kind of table it stands in. Used by the readers of rows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "data/rows.h"

namespace mlx::data {

struct RowValue {
  enum class Kind : std::uint8_t { kMissing, kNumber, kText } kind = Kind::kMissing;
  double number = 0;
  // As written, without spaces around it; of a JSON string, unescaped. Until the next cell is taken apart
  std::string_view text;
};

// Takes cells apart; what cannot be a value (a list, an object, a number that is not finite or too large for a float)
// has wrong() say why.
class CellReader {
 public:
  explicit CellReader(TableKind kind) : kind_(kind) {}
  RowValue read(std::string_view cell);
  const char* wrong() const { return wrong_; }  // of the last cell, null where it was fine

 private:
  TableKind kind_;
  std::string unescaped_;
  const char* wrong_ = nullptr;
};

// An error that names the table's file already.
struct TableError : Error {
  using Error::Error;
};
// "FILE: line N: WHY" as kCorrupt, for the row that begins at `offset`, as a TableError.
[[noreturn]] void fail_at_row(const RowFile& file, std::uint64_t offset, const std::string& why);
// Runs `work`, which reads the table. Its errors become an Error that names the file.
template <typename Work>
auto in_table(const RowFile& file, Work&& work) {
  try {
    return work();
  } catch (const SourceDamaged& damaged) {
    throw damaged.error;
  } catch (const TableError&) {
    throw;
  } catch (Error& error) {
    if (error.kind == ErrorKind::kCorrupt) error.message = file.name + ": " + error.message;
    throw;
  }
}

}  // namespace mlx::data
