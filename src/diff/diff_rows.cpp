// Scans both tables, joins their records part by part, and reads again only the rows that are shown or counted.
#include "diff/diff_rows.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "base/error.h"
#include "diff/row_join.h"
#include "diff/row_scan.h"

namespace mlx::diff {
namespace {

Hash128 random_key() {
  std::random_device device;
  const auto word = [&] { return std::uint64_t{device()} << 32 | device(); };
  return {word(), word()};
}

// Runs `work` for both sides; an error names its side.
template <typename Work>
void each_side(Pool& pool, Work work) {
  pool.run(2, [&](std::int64_t side) {
    try {
      work(static_cast<std::size_t>(side));
    } catch (const Error& error) {
      if (error.kind != ErrorKind::kCorrupt) throw;
      fail(ErrorKind::kCorrupt, "{}: {}", side == 0 ? "before" : "after", error.message);
    }
  });
}

void compare_columns(const TableShape& before, const TableShape& after, RowDiff& diff) {
  using Kind = ColumnChange::Kind;
  for (const Column& column : before.columns)
    if (!after.has(column.name)) diff.columns.push_back({Kind::kRemoved, column.name, column.type, ValueType::kNull});
  std::size_t last = 0;
  for (const Column& column : after.columns) {
    const Column* const old = before.find(column.name);
    if (!old) {
      diff.columns.push_back({Kind::kAdded, column.name, ValueType::kNull, column.type});
      continue;
    }
    const auto place = static_cast<std::size_t>(old - before.columns.data());
    diff.columns_moved = diff.columns_moved || place < last;
    last = place;
    if (old->type != column.type && before.rows > 0 && after.rows > 0)
      diff.columns.push_back({Kind::kRetyped, column.name, old->type, column.type});
  }
}

// Columns that all rows of one side have and no row of the other.
std::vector<std::string> one_sided(const TableShape& before, const TableShape& after) {
  std::vector<std::string> names;
  std::size_t shared = 0;
  const auto look = [&](const TableShape& here, const TableShape& there) {
    for (const Column& column : here.columns) {
      if (there.has(column.name))
        ++shared;
      else if (column.present == here.rows)
        names.push_back(column.name);
    }
  };
  look(before, after);
  look(after, before);
  if (shared == 0) names.clear();  // nothing would be left to compare
  return names;
}

NamedCells named(const Row& row, const TableReader& reader) {
  NamedCells cells;
  std::string buffer;
  for (const Cell& cell : row.cells) cells.emplace_back(reader.columns()[cell.column], text_of(cell, buffer));
  return cells;
}

// The rows at `offsets` (any order), with their lines.
std::map<std::uint64_t, ShownRow> read_rows(const TableFile& file, std::vector<std::uint64_t> offsets) {
  std::ranges::sort(offsets);
  offsets.erase(std::unique(offsets.begin(), offsets.end()), offsets.end());
  std::map<std::uint64_t, ShownRow> rows;
  if (offsets.empty()) return rows;
  const std::unique_ptr<TableReader> reader = read_table(file.open(), file.kind);
  Row row;
  for (const std::uint64_t offset : offsets) {
    reader->seek(offset);
    if (!reader->next(row)) fail(ErrorKind::kConflict, "a file changed while it was read");
    rows[offset].cells = named(row, *reader);
  }
  const std::vector<std::uint64_t> lines = lines_of(*file.open(), offsets, file.kind);
  for (std::size_t i = 0; i < offsets.size(); ++i) rows[offsets[i]].line = lines[i];
  return rows;
}

const std::string* cell_of(const NamedCells& cells, const std::string& column) {
  const auto found = std::ranges::find(cells, column, &NamedCells::value_type::first);
  return found == cells.end() ? nullptr : &found->second;
}

NamedCells key_cells(const NamedCells& cells, const std::vector<std::string>& key) {
  NamedCells found;
  for (const std::string& name : key)
    if (const std::string* cell = cell_of(cells, name)) found.emplace_back(name, *cell);
  return found;
}

ChangedRow changed_row(const ShownRow& before, const ShownRow& after, const RowPlan& plan) {
  ChangedRow changed{before.line, after.line, key_cells(before.cells, plan.key), {}};
  const auto compared = [&](const std::string& name) {
    return std::ranges::find(plan.ignored, name) == plan.ignored.end();
  };
  for (const auto& [name, text] : before.cells) {
    const std::string* const now = cell_of(after.cells, name);
    if (compared(name) && (!now || *now != text))
      changed.cells.push_back({name, text, now ? std::optional(*now) : std::nullopt});
  }
  for (const auto& [name, text] : after.cells)
    if (compared(name) && !cell_of(before.cells, name)) changed.cells.push_back({name, std::nullopt, text});
  return changed;
}

void read_shown(const TableFile (&files)[2], RowJoin& join, const RowPlan& plan, RowDiff& diff) {
  const std::vector<std::uint64_t> added = join.added_rows.take(), removed = join.removed_rows.take();
  const std::vector<std::uint64_t> doubled[2] = {join.doubled_before_rows.take(), join.doubled_after_rows.take()};
  const std::vector<OffsetPair> changed = join.changed_rows.take();
  std::vector<std::uint64_t> before = removed, after = added;
  before.insert(before.end(), doubled[0].begin(), doubled[0].end());
  after.insert(after.end(), doubled[1].begin(), doubled[1].end());
  for (const auto& [a, b] : changed) before.push_back(a), after.push_back(b);
  const std::map<std::uint64_t, ShownRow> rows[2] = {read_rows(files[0], before), read_rows(files[1], after)};
  for (const std::uint64_t offset : removed) diff.removed_rows.push_back(rows[0].at(offset));
  for (const std::uint64_t offset : added) diff.added_rows.push_back(rows[1].at(offset));
  for (const auto& [a, b] : changed) diff.changed_rows.push_back(changed_row(rows[0].at(a), rows[1].at(b), plan));
  for (const std::size_t side : {0, 1}) {
    for (const std::uint64_t offset : doubled[side]) {
      const ShownRow& row = rows[side].at(offset);
      diff.doubled.push_back({side == 1, row.line, key_cells(row.cells, plan.key)});
    }
  }
}

// Reads the changed rows of each side in file order. The first side's cell hashes are kept until the second is read.
void count_cells(const TableFile (&files)[2], std::vector<OffsetPair>& pairs, const std::vector<std::string>& columns,
                 Hash128 secret, RowDiff& diff) {
  std::map<std::string, std::size_t, std::less<>> places;
  for (std::size_t i = 0; i < columns.size(); ++i) places[columns[i]] = i;
  std::vector<std::uint64_t> hashes(pairs.size() * columns.size());  // sums: 0 for equal cells
  for (const bool after : {false, true}) {
    std::vector<std::size_t> order(pairs.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto offset_of = [&](std::size_t i) { return after ? pairs[i].second : pairs[i].first; };
    std::ranges::sort(order, {}, offset_of);
    const TableFile& file = files[after ? 1 : 0];
    const std::unique_ptr<TableReader> reader = read_table(file.open(), file.kind);
    std::string buffer;
    Row row;
    for (const std::size_t i : order) {
      reader->seek(offset_of(i));
      if (!reader->next(row)) fail(ErrorKind::kConflict, "a file changed while it was read");
      for (const Cell& cell : row.cells) {
        const auto place = places.find(reader->columns()[cell.column]);
        if (place == places.end()) continue;
        const std::uint64_t hash = sip_hash(secret, text_of(cell, buffer)).low;
        hashes[i * columns.size() + place->second] += after ? ~hash + 1 : hash;
      }
    }
  }
  std::vector<std::pair<std::string, std::uint64_t>>& counts = diff.changed_cells.emplace();
  for (std::size_t column = 0; column < columns.size(); ++column) {
    std::uint64_t count = 0;
    for (std::size_t i = 0; i < pairs.size(); ++i) count += hashes[i * columns.size() + column] != 0 ? 1 : 0;
    if (count > 0) counts.emplace_back(columns[column], count);
  }
  std::ranges::stable_sort(counts, [](const auto& a, const auto& b) { return a.second > b.second; });
}

std::vector<std::string> compared_columns(const TableShape (&shapes)[2], const RowPlan& plan) {
  std::vector<std::string> names;
  const auto take = [&](const std::string& name) {
    if (std::ranges::find(plan.ignored, name) == plan.ignored.end()) names.push_back(name);
  };
  for (const Column& column : shapes[0].columns) take(column.name);
  for (const Column& column : shapes[1].columns)
    if (!shapes[0].has(column.name)) take(column.name);
  return names;
}

}  // namespace

RowDiff diff_rows(const TableFile& before, const TableFile& after, const RowOptions& options, Pool& pool) {
  const TableFile files[2] = {before, after};
  TableShape shapes[2];
  each_side(pool, [&](std::size_t side) { shapes[side] = scan_table(files[side].open, files[side].kind); });

  RowDiff diff;
  diff.rows_before = shapes[0].rows, diff.rows_after = shapes[1].rows;
  compare_columns(shapes[0], shapes[1], diff);
  RowPlan plan{options.key, one_sided(shapes[0], shapes[1]), random_key()};
  for (const std::string& name : plan.key)
    if (!shapes[0].has(name) || !shapes[1].has(name)) diff.missing_key.push_back(name);
  if (!diff.missing_key.empty()) plan.key.clear();
  diff.by_key = !plan.key.empty();

  const std::vector<std::string> columns = compared_columns(shapes, plan);
  RowJoin join(diff.by_key, options.limit, kMostCounted / std::max<std::size_t>(columns.size(), 1));
  const std::uint64_t needed = (shapes[0].rows + shapes[1].rows) * sizeof(RowRecord);
  const std::uint64_t parts = std::max<std::uint64_t>(1, (needed + options.memory - 1) / options.memory);
  for (std::uint64_t part = 0; part < parts; ++part) {
    std::vector<RowRecord> records[2];
    each_side(pool, [&](std::size_t side) {
      records[side] = scan_rows(files[side].open, files[side].kind, plan, part, parts);
    });
    join.add(records[0], records[1]);
  }
  diff.added = join.added, diff.removed = join.removed, diff.changed = join.changed;
  diff.doubled_before = join.doubled_before, diff.doubled_after = join.doubled_after;
  read_shown(files, join, plan, diff);
  if (join.changed > 0 && join.changed <= join.kept_pairs) count_cells(files, join.pairs, columns, plan.secret, diff);
  return diff;
}

}  // namespace mlx::diff
