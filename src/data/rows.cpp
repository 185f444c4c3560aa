// Rows in memory, their measures, and rows as network input.

#include "data/rows.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/fd.h"
#include "data/readers/table_format.h"

namespace mlx::data {
namespace {

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

std::size_t count_numbers(const RowSchema& schema) {
  return static_cast<std::size_t>(std::ranges::count_if(schema.features, &Column::is_number));
}

// About as many rows as the file has, by what it declares or by its first rows; 0 if neither tells.
std::uint64_t expected_rows(const RowFile& file, std::uint64_t size) {
  constexpr std::uint64_t kLooked = 64 << 10, kSmall = 1 << 20;  // bytes
  if (size < kSmall) return 0;
  try {
    const std::unique_ptr<TableReader> reader = read_table(file);
    if (const auto declared = reader->declared_rows()) return *declared;
    if (table_format(file.kind).recognises) return 0;
    std::uint64_t count = 0;
    Row row;
    while (reader->next(row) && row.offset < kLooked) ++count;
    const std::uint64_t expected = count * (size / kLooked) + count;
    return expected + expected / 16;
  } catch (const Error&) {  // reading the rows tells it better
  } catch (const SourceDamaged&) {
  }
  return 0;
}

// In large pages, of which the system gives and clears far fewer one by one.
template <typename T>
void reserve(RowValues<T>& values, std::size_t count) {
  values.reserve(count);
  advise_large_pages(values.data(), values.capacity() * sizeof(T));
}

// A vector that grows instead copies its rows, and has the system clear twice the memory. A file that lies about its
// rows has no more set aside than it could hold if a byte were eight numbers.
void reserve_rows(Rows& rows, const RowFile& file, bool with_targets) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 30;  // bytes
  const std::size_t numbers = count_numbers(rows.schema), codes = rows.schema.features.size() - numbers;
  const std::optional<std::uint64_t> size = file.open()->known_size();
  if (!size) return;
  const std::uint64_t width = std::max<std::uint64_t>(8 * (numbers + codes), 1);
  const auto room = static_cast<std::size_t>(std::min(expected_rows(file, *size), std::min(kMost, 64 * *size) / width));
  reserve(rows.numbers, room * numbers);
  reserve(rows.codes, room * codes);
  if (!with_targets) return;
  if (rows.schema.kind == TargetKind::kClass)
    reserve(rows.labels, room);
  else
    reserve(rows.targets, room * rows.schema.targets.size());
}

class RowsSink final : public RowSink {
 public:
  RowsSink(Rows& rows, bool with_targets) : rows_(rows) {
    numbers_ = count_numbers(rows.schema), codes_ = rows.schema.features.size() - numbers_;
    const bool classes = rows.schema.kind == TargetKind::kClass;
    labels_ = with_targets && classes ? 1 : 0;
    targets_ = with_targets && !classes ? rows.schema.targets.size() : 0;
  }
  RowRoom room(std::size_t rows) override {
    const auto begin = static_cast<std::size_t>(rows_.count);
    resize(begin + rows);
    return {{rows_.numbers.data() + begin * numbers_, numbers_},
            {rows_.targets.data() + begin * targets_, targets_},
            {rows_.codes.data() + begin * codes_, codes_},
            {rows_.labels.data() + begin * labels_, labels_}};
  }
  void take(std::size_t rows) override {
    rows_.count += static_cast<std::int64_t>(rows);
    resize(static_cast<std::size_t>(rows_.count));
  }

 private:
  void resize(std::size_t rows) {
    rows_.numbers.resize(rows * numbers_), rows_.targets.resize(rows * targets_);
    rows_.codes.resize(rows * codes_), rows_.labels.resize(rows * labels_);
  }

  Rows& rows_;
  std::size_t numbers_ = 0, codes_ = 0, labels_ = 0, targets_ = 0;  // in a row
};

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

Rows read_rows(const RowFile& file, const RowSchema& schema, bool with_targets, Progress& progress) {
  Rows out;
  out.schema = schema;
  reserve_rows(out, file, with_targets);
  RowsSink sink(out, with_targets);
  read_rows(file, schema, with_targets, sink, progress);
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
