// Determines the kinds of columns in one pass over a training split. Keeps only the distinct values of columns that are
// categories, and at most as many as a category may have. A column whose first values are numbers is taken as one of
// numbers; if a later value is none, a second pass collects what the first passed over.

#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <unordered_set>

#include "base/bytes.h"
#include "base/toml.h"
#include "data/row_blocks.h"
#include "data/row_value.h"
#include "data/rows.h"

namespace mlx::data {
namespace {

constexpr std::size_t kMostCategories = 4096;
constexpr std::size_t kMostTargetClasses = 65536;
constexpr std::int64_t kMostFeatures = 1 << 20;

struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using TextSet = std::unordered_set<std::string, TextHash, std::equal_to<>>;

// What has been seen of one column so far.
struct Seen {
  std::string name;
  bool wanted = false;
  std::size_t most = kMostCategories;
  std::optional<ColumnKind> declared;
  std::int64_t present = 0;     // rows that have a value
  std::int64_t in_numbers = 0;  // of them, those whose value is a number
  bool numbers = true;          // all of them are
  bool binary = true;           // all are 0, 1, true or false
  std::uint64_t text_at = 0;    // the first value that is not a number, and its place
  std::string text;
  std::string not_binary;    // the first value that is not
  bool collects = false;     // distinct values: it may be a category
  bool passed_over = false;  // a number that was not collected
  TextSet values;
  bool too_many = false;
  KnownValues known;  // of blocks: values that are only counted from now on
};
using Names = std::set<std::string, std::less<>>;

bool is_bool(std::string_view text) {
  return type_of(text, TableKind::kCsv) == ValueType::kBool;
}

bool is_one_of(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

void add_value(Seen& seen, const RowValue& value, const RowFile& file, const Row& row) {
  ++seen.present;
  const bool number = value.kind == RowValue::Kind::kNumber;
  seen.in_numbers += number;
  if (!number && seen.declared == ColumnKind::kNumber)
    fail_at_row(file, row.offset,
                fmt::format("column '{}': '{}' is not a number, although [data.columns] declares one", seen.name,
                            value.text.substr(0, 40)));
  if (!number && seen.numbers) {
    seen.numbers = false;
    seen.text_at = row.offset;
    seen.text = value.text.substr(0, 40);
    seen.collects = true;
  }
  if (!seen.collects) {
    seen.passed_over = true;
    return;
  }
  if (seen.binary && !(number ? value.number == 0 || value.number == 1 : is_bool(value.text))) {
    seen.binary = false;
    seen.not_binary = value.text.substr(0, 40);
  }
  if (seen.too_many || seen.values.contains(value.text)) return;
  if (!is_utf8(value.text))
    fail_at_row(file, row.offset, fmt::format("column '{}' holds text that is not UTF-8", seen.name));
  seen.values.emplace(value.text);
  if (seen.values.size() > seen.most) {
    seen.too_many = true;
    seen.values.clear();
  }
}

struct Scan {
  std::vector<Seen> columns;
  std::int64_t rows = 0;
  std::string no_header, found_out;  // of TableReader
};

Seen first_seen(const std::string& name, const RowFile& file, const RowOptions& options, const Names& mixed) {
  if (!is_utf8(name)) fail_at_row(file, 0, "a column's name is not UTF-8");
  Seen seen;
  seen.name = name;
  if (const auto found = options.columns.find(name); found != options.columns.end()) seen.declared = found->second;
  const bool target = is_one_of(options.targets, name);
  const bool feature =
      options.features.empty() ? seen.declared != ColumnKind::kIgnore : is_one_of(options.features, name);
  seen.wanted = target || feature;
  if (target) seen.most = kMostTargetClasses;
  seen.collects = target || seen.declared == ColumnKind::kCategory || mixed.contains(name);
  return seen;
}

// True if the cell is a plain number of a column of numbers: what most cells are.
bool add_number(Seen& seen, const Cell& cell) {
  double value = 0;
  if (seen.collects || !CellReader::read_number(cell, value)) return false;
  ++seen.present, ++seen.in_numbers;
  seen.passed_over = true;
  return true;
}

void add_cells(Scan& out, const Row& row, const RowFile& file, CellReader& cells) {
  for (const Cell& cell : row.cells) {
    Seen& seen = out.columns[cell.column];
    if (!seen.wanted || add_number(seen, cell)) continue;
    const RowValue value = cells.read(cell, seen.collects && !seen.too_many);
    const bool by_text = seen.declared == ColumnKind::kCategory && value.kind == RowValue::Kind::kNumber;
    if (cells.wrong() && !by_text) {
      fail_at_row(file, row.offset,
                  fmt::format("column '{}': {} {}", seen.name, cells.text_of(cell).substr(0, 40), cells.wrong()));
    }
    if (value.kind != RowValue::Kind::kMissing) add_value(seen, value, file, row);
  }
}

// False if the column must be read cell by cell.
bool add_column(Seen& seen, const ColumnBlock& column, std::size_t rows) {
  if (!seen.wanted) return true;
  const std::optional<std::size_t> numbers = seen.collects ? std::nullopt : count_numbers(column, rows);
  const std::optional<std::size_t> known = numbers ? numbers : seen.known.count(column, rows);
  if (!known) return false;
  seen.present += static_cast<std::int64_t>(*known);
  if (!column.cells) seen.in_numbers += static_cast<std::int64_t>(*known);
  if (numbers) seen.passed_over = seen.passed_over || *numbers > 0;
  return true;
}

void add_block(Scan& out, const RowBlock& block, const RowFile& file, CellReader& cells) {
  std::vector<std::uint32_t> left;
  for (std::size_t i = 0; i < block.columns.size(); ++i)
    if (!add_column(out.columns[i], block.columns[i], block.rows)) left.push_back(static_cast<std::uint32_t>(i));
  Row row;
  for (std::size_t i = 0; !left.empty() && i < block.rows; ++i) {
    read_cells(block, i, left, row);
    add_cells(out, row, file, cells);
  }
  for (const std::uint32_t i : left) out.columns[i].known.keep(block.columns[i], block.rows, cells);
}

// `mixed`: columns that hold numbers and text.
Scan scan(const RowFile& file, const RowOptions& options, const Names& mixed = {}) {
  const std::unique_ptr<TableReader> reader = read_table(file);
  CellReader cells(file.kind);
  Scan out;
  out.no_header = reader->no_header();
  const auto meet_columns = [&] {
    while (out.columns.size() < reader->columns().size())
      out.columns.push_back(first_seen(reader->columns()[out.columns.size()], file, options, mixed));
  };
  for (RowBlock block; reader->next_block(block); out.rows += static_cast<std::int64_t>(block.rows)) {
    meet_columns();
    add_block(out, block, file, cells);
  }
  for (Row row; !reader->has_blocks() && reader->next(row); ++out.rows) {
    meet_columns();
    add_cells(out, row, file, cells);
  }
  if (out.rows == 0) throw TableError(ErrorKind::kCorrupt, file.name + ": it has no rows");
  if (mixed.empty()) {
    Names found;
    for (const Seen& seen : out.columns)
      if (seen.passed_over && !seen.numbers) found.insert(seen.name);
    if (!found.empty()) return scan(file, options, found);
  }
  out.found_out = reader->found_out();
  for (Seen& seen : out.columns)
    if (seen.declared == ColumnKind::kCategory) seen.numbers = false;
  return out;
}

std::string names_text(const Scan& scan) {
  constexpr std::size_t kShown = 12;
  std::string text;
  for (std::size_t i = 0; i < scan.columns.size() && i < kShown; ++i) text += (i ? ", " : "") + scan.columns[i].name;
  if (scan.columns.size() > kShown) text += ", …";
  return "it has: " + text + (scan.no_header.empty() ? "" : fmt::format(" ({})", scan.no_header));
}

const Seen& column_named(const Scan& scan, const RowFile& file, const std::string& name, const std::string& place) {
  for (const Seen& seen : scan.columns) {
    if (seen.name == name) return seen;
  }
  std::vector<std::string> names;
  names.reserve(scan.columns.size());
  for (const Seen& seen : scan.columns) names.push_back(seen.name);
  const std::string close = did_you_mean(name, names);
  throw Error(ErrorKind::kUsage, fmt::format("{}: {} has no column '{}'", place, file.name, name),
              close.empty() ? names_text(scan) : fmt::format("did you mean '{}'?", close));
}

void check_declared(const RowFile& file, const RowOptions& options, const Scan& scan) {
  for (const auto& [name, kind] : options.columns) {
    const bool feature = is_one_of(options.features, name);
    if (!feature) (void)column_named(scan, file, name, options.columns_place);
    if (kind == ColumnKind::kIgnore && (feature || is_one_of(options.targets, name)))
      fail(ErrorKind::kUsage, "{}: column '{}' is declared as ignored, but [data] names it", options.columns_place,
           name);
  }
}

// Warns about a column that is a category because of a few cells.
void warn_of_few(const RowFile& file, const Seen& seen, TableFacts& facts) {
  if (seen.numbers || seen.declared || 2 * seen.in_numbers <= seen.present) return;
  const double share = 100 * static_cast<double>(seen.in_numbers) / static_cast<double>(seen.present);
  facts.warnings.push_back(
      fmt::format("{}: {:.1f} % of `{}` are numbers, and '{}' in {} {} is {}: it is taken as a category of {} "
                  "values; [data.columns] {} = \"number\" or \"category\" says what it is",
                  file.name, std::min(share, 99.9), seen.name, seen.text, row_word(file),
                  lines_of(*file.open(), {seen.text_at}, file.kind)[0],
                  file.kind == TableKind::kJsonLines ? "a string" : "none", seen.values.size(), seen.name));
}

void add_facts(const RowFile& file, const Scan& scan, const RowSchema& schema, TableFacts& facts) {
  facts.file = file.name;
  facts.found_out = scan.found_out;
  facts.rows = scan.rows;
  const auto add = [&](const Column& column, const char* kind, bool target) {
    const Seen& seen = *std::ranges::find(scan.columns, column.name, &Seen::name);
    warn_of_few(file, seen, facts);
    const auto values = static_cast<std::int64_t>(column.values.size());
    facts.columns.push_back({column.name, kind, target, values, scan.rows - seen.present});
  };
  for (const Column& column : schema.features) add(column, column.is_number() ? "number" : "category", false);
  const bool labels = schema.kind == TargetKind::kLabels;
  for (const Column& column : schema.targets)
    add(column, !column.is_number() ? "class" : labels ? "label" : "number", true);
}

// Throws for the first row in which a column has no value. Searched only when it is an error.
void fail_missing(const RowFile& file, const Seen& column, bool target) {
  const std::unique_ptr<TableReader> reader = read_table(file);
  CellReader cells(file.kind);
  Row row;
  while (reader->next(row)) {
    const bool there = std::ranges::any_of(row.cells, [&](const Cell& cell) {
      return reader->columns()[cell.column] == column.name && cells.read(cell).kind != RowValue::Kind::kMissing;
    });
    if (there) continue;
    const std::uint64_t line = lines_of(*file.open(), {row.offset}, file.kind)[0];
    throw TableError(ErrorKind::kCorrupt,
                     fmt::format("{}: {} {}: column '{}' has no value", file.name, row_word(file), line, column.name),
                     target ? "remove rows without a target; nothing can be learned from them"
                            : "[data] missing = \"mean\" takes the column's mean, \"indicator\" also says where");
  }
}

void check_present(const RowFile& file, const Scan& scan, const Seen& column, bool target, Missing missing) {
  if (column.present == 0) {
    throw TableError(ErrorKind::kCorrupt,
                     fmt::format("{}: column '{}' has no value in any row", file.name, column.name),
                     target ? "" : fmt::format("leave it out: [data.columns] {} = \"ignore\"", column.name));
  }
  if (column.present < scan.rows && (target || missing == Missing::kError)) fail_missing(file, column, target);
}

Column as_column(const Seen& seen, const RowFile& file, bool number, bool target) {
  Column column;
  column.name = seen.name;
  if (number) return column;
  if (seen.too_many) {
    const std::uint64_t line = seen.text.empty() ? 0 : lines_of(*file.open(), {seen.text_at}, file.kind)[0];
    const std::string text =
        seen.text.empty() ? "" : fmt::format(" ('{}' in {} {} is not a number)", seen.text, row_word(file), line);
    throw Error(
        ErrorKind::kUsage,
        fmt::format("{}: column '{}' has more than {} different values{}", file.name, seen.name, seen.most, text),
        target ? "for a numeric target set loss = \"mse\" or \"huber\""
               : fmt::format("leave it out: [data.columns] {} = \"ignore\"", seen.name));
  }
  column.values.assign(seen.values.begin(), seen.values.end());
  std::ranges::sort(column.values);
  if (seen.numbers) {  // classes 2 and 10 in numeric order
    CellReader cells(TableKind::kCsv);
    std::ranges::stable_sort(column.values, {}, [&](const std::string& value) {
      return cells.read(Cell{0, value}).number;
    });
  }
  return column;
}

[[noreturn]] void refuse_target(const RowOptions& options, const Seen& seen, std::string_view why) {
  fail(ErrorKind::kUsage, "{}: column '{}' {}", options.target_place, seen.name, why);
}

// Checks that the declarations of targets in [data.columns] fit the loss.
void check_declared_targets(const RowOptions& options, const std::vector<const Seen*>& targets, TargetKind kind) {
  for (const Seen* seen : targets) {
    const bool category = seen->declared == ColumnKind::kCategory, number = seen->declared == ColumnKind::kNumber;
    if (number && kind == TargetKind::kClass)
      refuse_target(options, *seen, "is declared a number, and loss = \"softmax\" learns classes");
    if (category && options.list)
      refuse_target(options, *seen, "is declared a category, but a list of targets takes numbers or labels");
    if (category && kind == TargetKind::kLabels)
      refuse_target(options, *seen, "is declared a category, and loss = \"binary\" learns labels");
  }
}

TargetKind kind_of(const RowOptions& options, const std::vector<const Seen*>& targets) {
  const auto numbers = std::ranges::find_if(targets, [](const Seen* seen) { return !seen->numbers; });
  const auto binary = std::ranges::find_if(targets, [](const Seen* seen) { return !seen->binary; });
  const bool all_numbers = numbers == targets.end(), all_binary = binary == targets.end();
  if (options.loss == "softmax") {
    if (targets.size() > 1)
      fail(ErrorKind::kUsage, "{}: {} columns cannot be one class; loss = \"binary\" learns several labels",
           options.target_place, targets.size());
    return TargetKind::kClass;
  }
  if (options.loss == "binary") {
    if (!all_binary)
      refuse_target(
          options, **binary,
          fmt::format("holds '{}', loss = \"binary\" needs 0 and 1, or true and false", (*binary)->not_binary));
    return TargetKind::kLabels;
  }
  if (!options.loss.empty()) {
    if (!all_numbers)
      refuse_target(options, **numbers,
                    fmt::format("holds '{}', loss = \"{}\" needs numbers", (*numbers)->text, options.loss));
    return TargetKind::kNumbers;
  }
  if (!options.list) return all_numbers ? TargetKind::kNumbers : TargetKind::kClass;
  if (all_binary) return TargetKind::kLabels;
  if (!all_numbers)
    refuse_target(
        options, **numbers,
        fmt::format("holds '{}'; a list of targets is of numbers, or of labels that are 0 or 1, true or false",
                    (*numbers)->text));
  return TargetKind::kNumbers;
}

void choose_targets(const RowFile& file, const RowOptions& options, const Scan& scan, RowSchema& schema) {
  std::vector<const Seen*> targets;
  for (const std::string& name : options.targets) {
    const Seen& seen = column_named(scan, file, name, options.target_place);
    check_present(file, scan, seen, true, Missing::kError);
    if (is_one_of({options.targets.begin(), options.targets.begin() + static_cast<std::ptrdiff_t>(targets.size())},
                  name))
      refuse_target(options, seen, "occurs twice");
    targets.push_back(&seen);
  }
  schema.kind = kind_of(options, targets);
  check_declared_targets(options, targets, schema.kind);
  for (const Seen* seen : targets)
    schema.targets.push_back(as_column(*seen, file, schema.kind != TargetKind::kClass, true));
  if (schema.kind == TargetKind::kClass && schema.targets[0].values.size() < 2)
    refuse_target(options, *targets[0], fmt::format("has one class only, '{}'", schema.targets[0].values[0]));
}

void choose_features(const RowFile& file, const RowOptions& options, const Scan& scan, RowSchema& schema) {
  std::vector<const Seen*> features;
  if (options.features.empty()) {
    for (const Seen& seen : scan.columns) {
      if (seen.wanted && !is_one_of(options.targets, seen.name)) features.push_back(&seen);
    }
    if (features.empty()) fail(ErrorKind::kUsage, "{}: it has no column besides the targets", file.name);
  }
  for (const std::string& name : options.features) {
    const Seen& seen = column_named(scan, file, name, options.features_place);
    if (is_one_of(options.targets, name))
      fail(ErrorKind::kUsage, "{}: column '{}' is a target", options.features_place, name);
    if (std::ranges::find(features, &seen) != features.end())
      fail(ErrorKind::kUsage, "{}: column '{}' occurs twice", options.features_place, name);
    features.push_back(&seen);
  }
  for (const Seen* seen : features) {
    check_present(file, scan, *seen, false, options.missing);
    schema.features.push_back(as_column(*seen, file, seen->numbers, false));
    const bool missing = seen->present < scan.rows;
    schema.impute = schema.impute || (missing && options.missing == Missing::kAuto);
    schema.features.back().indicator = seen->numbers && missing && options.missing == Missing::kIndicator;
  }
  if (schema.width() > kMostFeatures)
    fail(ErrorKind::kUsage, "{}: its categories make {} features, at most {} are possible", file.name, schema.width(),
         kMostFeatures);
}

}  // namespace

RowSchema fit_schema(const RowFile& file, const RowOptions& options, TableFacts* facts) {
  return in_table(file, [&] {
    const Scan seen = scan(file, options);
    check_declared(file, options, seen);
    if (options.targets.empty()) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("{}: which column of {} is the target?", options.target_place, file.name),
                  names_text(seen));
    }
    RowSchema schema;
    schema.impute = options.missing == Missing::kMean || options.missing == Missing::kIndicator;
    choose_targets(file, options, seen, schema);
    choose_features(file, options, seen, schema);
    if (facts) add_facts(file, seen, schema, *facts);
    return schema;
  });
}

RowSchema fit_schema_on(const RowSchema& base, const RowFile& file, const RowOptions& options, TableFacts* facts) {
  std::vector<std::string> names, asked = options.features;
  for (const Column& column : base.features) names.push_back(column.name);
  std::vector<std::string> sorted = names;
  std::ranges::sort(sorted);
  std::ranges::sort(asked);
  if (!asked.empty() && asked != sorted) {
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: the model that it starts from takes others", options.features_place),
                fmt::format("it takes {}; leave the key out, or train without init", fmt::join(names, ", ")));
  }
  RowOptions with_base = options;
  with_base.features = names;
  // Take the base's kinds of columns; otherwise one odd cell would make the table unusable.
  for (const Column& column : base.features)
    with_base.columns.try_emplace(column.name, column.is_number() ? ColumnKind::kNumber : ColumnKind::kCategory);
  RowSchema schema = fit_schema(file, with_base, facts);
  schema.features = base.features;
  schema.impute = base.impute || schema.impute;
  // Values that the base knows but this table lacks do not matter.
  const auto covers = [](const Column& known, const Column& here) {
    return known.name == here.name && known.is_number() == here.is_number() &&
           std::ranges::includes(known.values, here.values);
  };
  if (schema.kind == base.kind && std::ranges::equal(base.targets, schema.targets, covers))
    schema.targets = base.targets;
  return schema;
}

std::int64_t RowSchema::width() const {
  std::int64_t width = 0;
  for (const Column& column : features) {
    const int number = column.indicator ? 2 : 1;
    width += column.is_number() ? number : static_cast<std::int64_t>(column.values.size());
  }
  return width;
}

std::vector<std::string> RowSchema::outputs() const {
  if (kind == TargetKind::kClass) return targets.at(0).values;
  std::vector<std::string> names;
  names.reserve(targets.size());
  for (const Column& column : targets) names.push_back(column.name);
  return names;
}

}  // namespace mlx::data
