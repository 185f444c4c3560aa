// A row of a table is observed as its cells.

#include <algorithm>

#include "data/content_hash.h"
#include "data/kinds/rows_dataset.h"
#include "data/kinds/scans.h"
#include "data/readers/table_format.h"
#include "data/row_value.h"

namespace mlx::data {
namespace {

// Equal rows have equal sums, whatever the order of their columns and the format of their table.
std::uint64_t hash_of_row(const std::vector<ObservedField>& fields, const std::vector<std::uint64_t>& names) {
  std::uint64_t sum = 0;
  for (const ObservedField& field : fields) sum += mixed(names[field.column] ^ hash_of(field.text));
  return mixed(sum) | 1;
}

void scan_table(const StoredSplit& split, const Observe& observe, ScanFacts& facts, Progress& progress) {
  add_files(split.files, facts);
  progress.begin("reading " + facts.files.at(0), 0, "B");
  const RowFile file = row_file(split);
  InPart in_part = split.part
                       ? InPart(divide_rows(file, split.part->rule, split.store->interruption()), split.part->part)
                       : InPart();
  in_table(file, [&] {
    const std::unique_ptr<TableReader> reader = read_table(file);
    CellReader cells(file.kind);
    std::vector<std::uint64_t> names;
    std::vector<ObservedField> fields;
    std::vector<std::string> texts;  // a cell's text lives until the next cell is read
    NearRow near;
    Row row;
    while (reader->next(row)) {
      if (!in_part.next()) continue;
      for (std::size_t i = names.size(); i < reader->columns().size(); ++i)
        names.push_back(hash_of(reader->columns()[i]));
      fields.clear();
      texts.resize(std::max(texts.size(), row.cells.size()));
      for (std::size_t i = 0; i < row.cells.size(); ++i) {
        const Cell& cell = row.cells[i];
        const RowValue value = cells.read(cell);
        if (value.kind == RowValue::Kind::kMissing) continue;
        ValueType type = type_of(cell, file.kind);
        std::string_view text = value.text;
        const bool escaped = file.kind == TableKind::kJsonLines && type == ValueType::kText;
        const bool formatted = cell.form == Cell::Form::kInt || cell.form == Cell::Form::kFloat;
        if (escaped || formatted) text = texts[i].assign(value.text);
        if (value.kind != RowValue::Kind::kNumber && (type == ValueType::kInt || type == ValueType::kFloat))
          type = ValueType::kText;
        fields.push_back({cell.column, type, value.number, text});
        if (value.kind == RowValue::Kind::kNumber)
          near.number(names[cell.column], value.number);
        else
          near.text(names[cell.column], text);
      }
      observe({row.offset, &fields, &reader->columns(), hash_of_row(fields, names), near.finish(), nullptr});
      if (++facts.items % 4096 == 0) progress.check_interrupted();
    }
    facts.columns = reader->columns();
    facts.found_out = reader->found_out();
    return 0;
  });
}

// Places are offsets.
std::vector<std::uint64_t> lines_at(const StoredSplit& split, std::vector<std::uint64_t> places) {
  std::vector<std::uint64_t> ascending = places;
  std::ranges::sort(ascending);
  const RowFile file = row_file(split);
  const std::vector<std::uint64_t> lines = in_table(file, [&] { return lines_of(*file.open(), ascending, file.kind); });
  for (std::uint64_t& place : places)
    place = lines[static_cast<std::size_t>(std::ranges::lower_bound(ascending, place) - ascending.begin())];
  return places;
}

}  // namespace

const ItemScan rows_scan = {.unit = "rows", .place_word = "line", .run = scan_table, .numbers = lines_at};

}  // namespace mlx::data
