// Reads rows by a schema, and writes them as network input.

#include "data/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>

#include "base/error.h"
#include "base/text.h"
#include "data/readers/table_format.h"
#include "data/row_value.h"

namespace mlx::data {
namespace {

constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

// The destination of a column's values. Values of categories and classes are looked up.
struct Place {
  enum class To : std::uint8_t { kNumber, kCode, kLabel, kTarget } to = To::kNumber;
  std::size_t slot = 0;  // within its row of numbers, codes or targets
  std::string name;
  std::unordered_map<std::string_view, std::int32_t> codes;
  std::uint64_t row = 0;  // the last row with a value, from 1; not kept for plain numbers
};

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
  RowReader(const RowFile& file, const RowSchema& schema, bool with_targets, const TakeRow& take)
      : file_(file),
        schema_(schema),
        with_targets_(with_targets),
        take_(take),
        places_(places_of(schema, with_targets)),
        cells_(file.kind) {
    const auto of = [&](Place::To to) { return static_cast<std::size_t>(std::ranges::count(places_, to, &Place::to)); };
    numbers_.resize(of(Place::To::kNumber));
    codes_.resize(of(Place::To::kCode));
    targets_.resize(of(Place::To::kTarget));
  }

  void run(Progress& progress) {
    const std::unique_ptr<TableReader> reader = read_table(file_);
    Row row;
    std::uint64_t reported = 0;
    no_header_ = reader->no_header();
    while (reader->next(row)) {
      meet_columns(reader->columns());
      if (count_ == 0 && file_.kind != TableKind::kJsonLines) check_columns();
      add(row);
      if (row.offset - reported <= (1 << 20)) continue;
      progress.check_interrupted();
      progress.advance(row.offset - std::exchange(reported, row.offset));
    }
    if (count_ == 0) throw TableError(ErrorKind::kCorrupt, file_.name + ": it has no rows");
    check_columns();
  }

 private:
  void meet_columns(const std::vector<std::string>& columns) {
    while (place_of_.size() < columns.size()) {
      const std::string& name = columns[place_of_.size()];
      const auto found = std::ranges::find(places_, name, &Place::name);
      place_of_.push_back(found == places_.end() ? kNowhere : static_cast<std::size_t>(found - places_.begin()));
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

  void add(const Row& row) {
    const std::uint64_t at = ++count_;
    std::size_t filled = 0;
    std::ranges::fill(numbers_, std::numeric_limits<double>::quiet_NaN());
    std::ranges::fill(codes_, -1);
    for (const Cell& cell : row.cells) {
      const std::size_t where = place_of_[cell.column];
      if (where == kNowhere) continue;
      Place& place = places_[where];
      if (double number = 0; place.to == Place::To::kNumber && CellReader::read_number(cell, number)) {
        numbers_[place.slot] = number;
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
      put(row, place, value);
    }
    if (filled != places_.size()) check_missing(row);
    take_({numbers_.data(), targets_.data(), codes_.data(), label_});
  }

  void check_missing(const Row& row) const {
    for (const Place& place : places_) {
      const bool feature = place.to == Place::To::kNumber || place.to == Place::To::kCode;
      const bool found = place.to == Place::To::kNumber ? !std::isnan(numbers_[place.slot]) : place.row == count_;
      if (!found && !(feature && schema_.impute))
        fail_at_row(file_, row.offset, fmt::format("column '{}' has no value", place.name));
    }
  }

  void put(const Row& row, const Place& place, const RowValue& value) {
    const bool number = value.kind == RowValue::Kind::kNumber;
    switch (place.to) {
      case Place::To::kNumber:
        if (!number) refuse(row, place, value.text, "is not a number, unlike the column in the training split");
        numbers_[place.slot] = value.number;
        break;
      case Place::To::kCode:
        if (const auto found = place.codes.find(value.text); found != place.codes.end())
          codes_[place.slot] = found->second;
        break;
      case Place::To::kLabel: {
        const auto found = place.codes.find(value.text);
        if (found == place.codes.end())
          refuse(row, place, value.text, "is not among the classes of the training split");
        label_ = found->second;
        break;
      }
      case Place::To::kTarget:
        targets_[place.slot] = target(row, place, value);
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
  const TakeRow& take_;
  std::vector<Place> places_;
  CellReader cells_;
  std::string no_header_;              // TableReader::no_header()
  std::vector<std::size_t> place_of_;  // by the table's column
  std::uint64_t count_ = 0;
  std::vector<double> numbers_, targets_;  // of the row
  std::vector<std::int32_t> codes_;
  std::int32_t label_ = 0;
};

struct Moments {
  double sum = 0, count = 0, mean = 0, squares = 0;

  void add(double value) {
    if (!std::isnan(value)) sum += value, ++count;
  }
  void add_square(double value) {
    if (!std::isnan(value)) squares += (value - mean) * (value - mean);
  }
  void write(Column& column) const {
    if (count == 0) {
      column.mean = 0, column.std = 1;
      return;
    }
    const double deviation = std::sqrt(squares / count);
    column.mean = mean;
    column.std = deviation > 1e-12 * std::max(1.0, std::abs(mean)) ? deviation : 1;  // a constant becomes zeros
  }
};

// Room for about as many rows as the file has, if its first rows tell. A vector that grows instead copies its rows, and
// has the system clear twice the memory.
void reserve_rows(Rows& rows, const RowFile& file, std::size_t numbers, std::size_t codes, bool with_targets) {
  constexpr std::uint64_t kLooked = 64 << 10, kMost = std::uint64_t{1} << 30;  // bytes
  std::unique_ptr<Source> source = file.open();
  const std::optional<std::uint64_t> size = source->known_size();
  if (!size || *size < 16 * kLooked || table_format(file.kind).recognises) return;
  std::uint64_t count = 0;
  try {
    const std::unique_ptr<TableReader> reader = read_table(std::move(source), file.kind, file.table);
    Row row;
    while (reader->next(row) && row.offset < kLooked) ++count;
  } catch (const Error&) {  // reading the rows tells it better
    return;
  } catch (const SourceDamaged&) {
    return;
  }
  const std::uint64_t width = std::max<std::uint64_t>(8 * (numbers + codes), 1);
  const std::uint64_t expected = count * (*size / kLooked) + count;
  const auto room = static_cast<std::size_t>(std::min(expected + expected / 16, kMost / width));
  rows.numbers.reserve(room * numbers);
  rows.codes.reserve(room * codes);
  if (!with_targets) return;
  if (rows.schema.kind == TargetKind::kClass)
    rows.labels.reserve(room);
  else
    rows.targets.reserve(room * rows.schema.targets.size());
}

std::size_t count_numbers(const RowSchema& schema) {
  return static_cast<std::size_t>(std::ranges::count_if(schema.features, &Column::is_number));
}

}  // namespace

std::unique_ptr<TableReader> read_table(const RowFile& file) {
  try {
    return read_table(file.open(), file.kind, file.table);
  } catch (Error& error) {  // in_table() names the file of damaged ones
    if (error.kind == ErrorKind::kUsage && !error.message.starts_with(file.name + ": "))
      error.message = file.name + ": " + error.message;
    throw;
  }
}

RowView Rows::operator[](std::int64_t index) const {
  const auto row = static_cast<std::size_t>(index);
  const std::size_t of_numbers = count_numbers(schema), of_codes = schema.features.size() - of_numbers;
  return {numbers.data() + row * of_numbers, targets.empty() ? nullptr : targets.data() + row * schema.targets.size(),
          codes.data() + row * of_codes, labels.empty() ? 0 : labels[row]};
}

Rows Rows::chosen(const IndexSet& items) const {
  Rows out;
  out.count = items.size(), out.schema = schema;
  const auto copy = [&](const auto& from, auto& to) {
    const std::size_t width = count == 0 ? 0 : from.size() / static_cast<std::size_t>(count);
    to.reserve(width * static_cast<std::size_t>(items.size()));
    for (std::int64_t i = 0; i < items.size(); ++i) {
      const auto* const row = from.data() + static_cast<std::size_t>(items[i]) * width;
      to.insert(to.end(), row, row + width);
    }
  };
  copy(numbers, out.numbers), copy(codes, out.codes), copy(labels, out.labels), copy(targets, out.targets);
  return out;
}

void read_rows(const RowFile& file, const RowSchema& schema, bool with_targets, const TakeRow& take,
               Progress& progress) {
  in_table(file, [&] { RowReader(file, schema, with_targets, take).run(progress); });
}

Rows read_rows(const RowFile& file, const RowSchema& schema, bool with_targets, Progress& progress) {
  Rows out;
  out.schema = schema;
  const std::size_t numbers = count_numbers(schema), codes = schema.features.size() - numbers;
  const bool classes = schema.kind == TargetKind::kClass;
  reserve_rows(out, file, numbers, codes, with_targets);
  const auto take = [&](const RowView& row) {
    ++out.count;
    out.numbers.insert(out.numbers.end(), row.numbers, row.numbers + numbers);
    out.codes.insert(out.codes.end(), row.codes, row.codes + codes);
    if (!with_targets) return;
    if (classes)
      out.labels.push_back(row.label);
    else
      out.targets.insert(out.targets.end(), row.targets, row.targets + schema.targets.size());
  };
  read_rows(file, schema, with_targets, take, progress);
  return out;
}

// Rows are added in order, so that the bits depend on the data alone.
RowSchema measured(RowSchema schema, const ScanRows& scan, const RowSchema* base) {
  const std::size_t numbers = base ? 0 : count_numbers(schema);  // those of a base are all of its features
  const bool scales = schema.kind == TargetKind::kNumbers && !(base && schema.targets == base->targets);
  const std::size_t targets = scales ? schema.targets.size() : 0;
  std::vector<Moments> of_numbers(numbers), of_targets(targets);
  if (numbers + targets == 0) return schema;
  const auto each = [&](const RowView& row, void (Moments::*add)(double)) {
    for (std::size_t i = 0; i < numbers; ++i) (of_numbers[i].*add)(row.numbers[i]);
    for (std::size_t i = 0; i < targets; ++i) (of_targets[i].*add)(row.targets[i]);
  };
  scan([&](const RowView& row) { each(row, &Moments::add); });
  for (std::vector<Moments>* of : {&of_numbers, &of_targets})
    for (Moments& moments : *of) moments.mean = moments.sum / moments.count;
  scan([&](const RowView& row) { each(row, &Moments::add_square); });
  for (std::size_t i = 0, slot = 0; i < schema.features.size() && slot < numbers; ++i)
    if (schema.features[i].is_number()) of_numbers[slot++].write(schema.features[i]);
  for (std::size_t i = 0; i < targets; ++i) of_targets[i].write(schema.targets[i]);
  return schema;
}

void write_features(const RowView& row, const RowSchema& schema, float* to) {
  const double* number = row.numbers;
  const std::int32_t* code = row.codes;
  for (const Column& column : schema.features) {
    if (column.is_number()) {
      const bool missing = std::isnan(*number);
      *to++ = missing ? 0.0f : static_cast<float>((*number - column.mean) / column.std);
      if (column.indicator) *to++ = missing ? 1.0f : 0.0f;
      ++number;
    } else {
      std::fill_n(to, column.values.size(), 0.0f);
      if (*code >= 0) to[*code] = 1.0f;
      to += column.values.size();
      ++code;
    }
  }
}

void write_targets(const RowView& row, const RowSchema& schema, float* to) {
  for (std::size_t i = 0; i < schema.targets.size(); ++i)
    to[i] = static_cast<float>((row.targets[i] - schema.targets[i].mean) / schema.targets[i].std);
}

}  // namespace mlx::data
