// Reads a table's rows by a schema: cell by cell, or column by column where the format has blocks of typed values.
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "data/near.h"
#include "data/readers/table_format.h"
#include "data/row_blocks.h"
#include "data/row_value.h"
#include "data/rows.h"

namespace mlx::data {
namespace {

constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
constexpr std::size_t kRecentCodes = 256;
constexpr std::size_t kRowsAtOnce = 64;  // of those that are read cell by cell

// The destination of a column's values. Values of categories and classes are looked up.
struct Place {
  enum class To : std::uint8_t { kNumber, kCode, kLabel, kTarget } to = To::kNumber;
  std::size_t slot = 0;  // within its row of numbers, codes or targets
  std::string name;
  std::unordered_map<std::string_view, std::int32_t> codes;
  std::uint64_t row = 0;            // the last row with a value, from 1; not kept for plain numbers, nor where `whole`
  bool twice = false;               // the table has several columns of this name
  bool whole = false;               // the values of the block are read already
  std::vector<std::int32_t> known;  // codes of a dictionary's cells, found when they are met
  std::uint64_t dictionary = 0;     // which they belong to
  std::vector<std::pair<std::int64_t, std::int32_t>> recent;  // codes of integers met last
};

constexpr std::int32_t kNotMet = std::numeric_limits<std::int32_t>::min();  // a code that is not looked up yet

std::unordered_map<std::string_view, std::int32_t> codes_of(const Column& column) {
  std::unordered_map<std::string_view, std::int32_t> codes;
  for (std::size_t i = 0; i < column.values.size(); ++i) codes.emplace(column.values[i], static_cast<std::int32_t>(i));
  return codes;
}

std::vector<Place> places_of(const RowSchema& schema, bool with_targets) {
  std::vector<Place> places;
  places.reserve(schema.features.size() + schema.targets.size());
  std::size_t numbers = 0, codes = 0;
  for (const Column& column : schema.features) {
    const bool number = column.is_number();
    places.push_back(
        {number ? Place::To::kNumber : Place::To::kCode, number ? numbers++ : codes++, column.name, codes_of(column)});
  }
  for (std::size_t i = 0; with_targets && i < schema.targets.size(); ++i) {
    places.push_back({schema.kind == TargetKind::kClass ? Place::To::kLabel : Place::To::kTarget, i,
                      schema.targets[i].name, codes_of(schema.targets[i])});
  }
  return places;
}

class RowReader {
 public:
  RowReader(const RowFile& file, const RowSchema& schema, bool with_targets, RowSink& sink)
      : file_(file),
        schema_(schema),
        with_targets_(with_targets),
        sink_(sink),
        places_(places_of(schema, with_targets)),
        cells_(file.kind) {
    const auto of = [&](Place::To to) { return static_cast<std::size_t>(std::ranges::count(places_, to, &Place::to)); };
    of_numbers_ = of(Place::To::kNumber), of_codes_ = of(Place::To::kCode), of_targets_ = of(Place::To::kTarget);
  }

  void run(Progress& progress) {
    const std::unique_ptr<TableReader> reader = read_table(file_);
    no_header_ = reader->no_header();
    if (reader->has_blocks())
      read_blocks(*reader, progress);
    else
      read_cells(*reader, progress);
    if (count_ == 0) throw TableError(ErrorKind::kCorrupt, file_.name + ": it has no rows");
    check_columns();
  }

 private:
  void read_cells(TableReader& reader, Progress& progress) {
    Row row;
    std::size_t filled = kRowsAtOnce;  // of the room
    while (reader.next(row)) {
      meet_columns(reader.columns());
      if (count_ == 0 && file_.kind != TableKind::kJsonLines) check_columns();
      if (filled == kRowsAtOnce) {
        if (count_ > 0) sink_.take(filled);
        room_ = sink_.room(kRowsAtOnce), filled = 0;
      }
      std::fill_n(room_.numbers[filled], of_numbers_, kNoNumber);
      std::fill_n(room_.codes[filled], of_codes_, kNoCode);
      add_cells(row, filled++, 0);
      report(row.offset, progress);
    }
    if (count_ > 0) sink_.take(filled);
  }

  void read_blocks(TableReader& reader, Progress& progress) {
    RowBlock block;
    while (reader.next_block(block)) {
      meet_columns(reader.columns());
      if (count_ == 0) check_columns();
      add(block);
      report(block.offset + block.rows - 1, progress);
    }
  }

  void report(std::uint64_t offset, Progress& progress) {
    if (offset - reported_ <= (1 << 20)) return;
    progress.check_interrupted();
    progress.advance(offset - std::exchange(reported_, offset));
  }

  void meet_columns(const std::vector<std::string>& columns) {
    while (place_of_.size() < columns.size()) {
      const std::string& name = columns[place_of_.size()];
      const auto found = std::ranges::find(places_, name, &Place::name);
      const std::size_t place = found == places_.end() ? kNowhere : static_cast<std::size_t>(found - places_.begin());
      if (place != kNowhere) found->twice = std::ranges::find(place_of_, place) != place_of_.end();
      place_of_.push_back(place);
    }
  }

  void check_columns() const {
    std::string missing;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (std::ranges::find(place_of_, i) == place_of_.end())
        missing += fmt::format("{}'{}'", missing.empty() ? "" : ", ", printable(places_[i].name));
    }
    if (!missing.empty())
      throw Error(ErrorKind::kUsage, fmt::format("{} has no column {}", file_.name, missing),
                  no_header_.empty() ? (with_targets_ ? "the model was trained with it" : "the model takes it")
                                     : no_header_ + ": without a header columns are named 1, 2, 3 …");
  }

  // Reads whole columns where it can, the others cell by cell. A column with a value that is an error is among these,
  // so that the error of the first row is the one that is told.
  void add(const RowBlock& block) {
    room_ = sink_.room(block.rows);
    numbers_in_.assign(of_numbers_, nullptr);
    scratch_.resize((of_numbers_ + of_targets_) * block.rows);
    left_.clear();
    std::size_t wanted = 0;
    for (std::size_t i = 0; i < block.columns.size(); ++i) {
      if (place_of_[i] == kNowhere) continue;
      ++wanted;
      Place& place = places_[place_of_[i]];
      place.whole = !place.twice && read_column(block.columns[i], place, block.rows);
      if (!place.whole) left_.push_back(static_cast<std::uint32_t>(i));
    }
    transpose(numbers_in_, block.rows, room_.numbers);
    if (left_.empty()) count_ += block.rows;
    for (const std::uint32_t column : left_) clear(places_[place_of_[column]], block.rows);
    for (std::size_t i = 0; i < block.rows && !left_.empty(); ++i) {
      data::read_cells(block, i, left_, row_);
      add_cells(row_, i, wanted - left_.size());
    }
    sink_.take(block.rows);
  }

  void clear(const Place& place, std::size_t rows) {
    for (std::size_t i = 0; i < rows; ++i) {
      if (place.to == Place::To::kNumber) room_.numbers[i][place.slot] = kNoNumber;
      if (place.to == Place::To::kCode) room_.codes[i][place.slot] = kNoCode;
    }
  }

  // False if the column must be read cell by cell.
  bool read_column(const ColumnBlock& column, Place& place, std::size_t rows) {
    if (place.to == Place::To::kCode || place.to == Place::To::kLabel) return read_codes(column, place, rows);
    const bool feature = place.to == Place::To::kNumber;
    const std::size_t scratch = (feature ? place.slot : of_numbers_ + place.slot) * rows;
    const BlockNumbers numbers = numbers_of(column, rows, scratch_.data() + scratch);
    if (!numbers.values || (numbers.missing && !(feature && schema_.impute))) return false;
    if (feature) {
      numbers_in_[place.slot] = numbers.values;
      return true;
    }
    const auto is_label = [](double number) { return number == 0 || number == 1; };
    if (schema_.kind == TargetKind::kLabels && !std::all_of(numbers.values, numbers.values + rows, is_label))
      return false;
    for (std::size_t i = 0; i < rows; ++i) room_.targets[i][place.slot] = numbers.values[i];
    return true;
  }

  bool read_codes(const ColumnBlock& column, Place& place, std::size_t rows) {
    if (column.codes && place.dictionary != column.dictionary) place.known.clear();
    place.dictionary = column.dictionary;
    if (column.codes) place.known.resize(column.count, kNotMet);
    const bool label = place.to == Place::To::kLabel;
    const RowRoom::Places<std::int32_t> to = label ? room_.labels : room_.codes;
    for (std::size_t i = 0; i < rows; ++i) {
      const std::int32_t code = code_in(column, i, place);
      if (code < 0 && (label || (code == kNoCode && !schema_.impute))) return false;
      to[i][place.slot] = code;
    }
    return true;
  }

  std::int32_t code_in(const ColumnBlock& column, std::size_t row, Place& place) {
    if (column.codes) {
      std::int32_t& code = place.known[column.codes[row]];
      if (code == kNotMet) code = code_of(column.cell(row), place);
      return code;
    }
    if (!column.integers || (column.present && column.present[row] == 0)) return code_of(column.cell(row), place);
    place.recent.resize(kRecentCodes, {0, kNotMet});
    auto& [integer, code] = place.recent[static_cast<std::uint64_t>(column.integers[row]) % kRecentCodes];
    if (code == kNotMet || integer != column.integers[row])
      integer = column.integers[row], code = code_of(column.cell(row), place);
    return code;
  }

  std::int32_t code_of(const Cell& cell, const Place& place) {
    const RowValue value = cells_.read(cell);
    return value.kind == RowValue::Kind::kMissing ? kNoCode : code_of(value.text, place);
  }
  // A feature's value that the training split does not have is told from others, for the search for equal rows.
  std::int32_t code_of(std::string_view text, const Place& place) {
    const auto found = place.codes.find(text);
    return found == place.codes.end() ? code_of_unknown(folding_.folded_hash(text)) : found->second;
  }

  // Reads cells into row `index`, in which `filled` places have their values.
  void add_cells(const Row& row, std::size_t index, std::size_t filled) {
    const std::uint64_t at = ++count_;
    double* const numbers = room_.numbers[index];
    for (const Cell& cell : row.cells) {
      const std::size_t where = place_of_[cell.column];
      if (where == kNowhere) continue;
      Place& place = places_[where];
      if (double number = 0; place.to == Place::To::kNumber && CellReader::read_number(cell, number)) {
        numbers[place.slot] = number;
        ++filled;  // such tables have a column once
        continue;
      }
      const bool looked_up = place.to == Place::To::kCode || place.to == Place::To::kLabel;
      const RowValue value = cells_.read(cell, looked_up);
      const bool by_text = looked_up && value.kind == RowValue::Kind::kNumber;  // whatever number it is
      if (cells_.wrong() && !by_text) refuse(row, place, cells_.text_of(cell), cells_.wrong());
      if (value.kind == RowValue::Kind::kMissing) continue;
      filled += place.row != at;
      place.row = at;
      put(row, index, place, value);
    }
    if (filled != places_.size()) check_missing(row, numbers);
  }

  void check_missing(const Row& row, const double* numbers) const {
    for (const Place& place : places_) {
      if (place.whole) continue;
      const bool feature = place.to == Place::To::kNumber || place.to == Place::To::kCode;
      const bool found = place.to == Place::To::kNumber ? !std::isnan(numbers[place.slot]) : place.row == count_;
      if (!found && !(feature && schema_.impute))
        fail_at_row(file_, row.offset, fmt::format("column '{}' has no value", place.name));
    }
  }

  void put(const Row& row, std::size_t index, const Place& place, const RowValue& value) {
    const bool number = value.kind == RowValue::Kind::kNumber;
    switch (place.to) {
      case Place::To::kNumber:
        if (!number) refuse(row, place, value.text, "is not a number, unlike the column in the training split");
        room_.numbers[index][place.slot] = value.number;
        break;
      case Place::To::kCode:
        room_.codes[index][place.slot] = code_of(value.text, place);
        break;
      case Place::To::kLabel: {
        const auto found = place.codes.find(value.text);
        if (found == place.codes.end())
          refuse(row, place, value.text, "is not among the classes of the training split");
        *room_.labels[index] = found->second;
        break;
      }
      case Place::To::kTarget:
        room_.targets[index][place.slot] = target(row, place, value);
        break;
    }
  }

  double target(const Row& row, const Place& place, const RowValue& value) const {
    const bool labels = schema_.kind == TargetKind::kLabels;
    if (value.kind == RowValue::Kind::kNumber) {
      if (labels && value.number != 0 && value.number != 1)
        refuse(row, place, fmt::format("{}", value.number), "is neither 0 nor 1");
      return value.number;
    }
    if (!labels || type_of(value.text, TableKind::kCsv) != ValueType::kBool)
      refuse(row, place, value.text, "is no number");
    return value.text[0] == 't' || value.text[0] == 'T' ? 1 : 0;
  }

  [[noreturn]] void refuse(const Row& row, const Place& place, std::string_view text, std::string_view why) const {
    fail_at_row(file_, row.offset, fmt::format("column '{}': '{}' {}", place.name, text.substr(0, 40), why));
  }

  const RowFile& file_;
  const RowSchema& schema_;
  bool with_targets_;
  RowSink& sink_;
  std::vector<Place> places_;
  CellReader cells_;
  NearRow folding_;
  std::string no_header_;              // TableReader::no_header()
  std::vector<std::size_t> place_of_;  // by the table's column
  std::uint64_t count_ = 0, reported_ = 0;
  std::size_t of_numbers_ = 0, of_codes_ = 0, of_targets_ = 0;  // in a row
  RowRoom room_;                                                // of the rows that are read at once
  std::vector<const double*> numbers_in_;  // of a block: by slot, null where they are read cell by cell
  std::vector<double> scratch_;
  std::vector<std::uint32_t> left_;  // columns that are read cell by cell
  Row row_;                          // their cells
};

}  // namespace

void read_rows(const RowFile& file, const RowSchema& schema, bool with_targets, RowSink& sink, Progress& progress) {
  in_table(file, [&] { RowReader(file, schema, with_targets, sink).run(progress); });
}

}  // namespace mlx::data
