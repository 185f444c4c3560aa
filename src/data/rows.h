// Tables as examples: some columns are features, others what is to be learned. The training split decides which columns
// are numbers and which categories (its schema); every other split, and what `mlx predict` gets, is read by the same
// schema, which therefore belongs to the model.
//
// A number becomes (v - mean) / std of the training split, a category one feature for each of its values (one-hot), 0
// in all of them for a value that the training split does not have. Columns of true and false are categories. A number
// that is missing is the mean, and where that is asked for one more feature says that it was.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/progress.h"
#include "data/kind.h"
#include "data/order.h"
#include "data/table.h"

namespace mlx::data {

struct Column {
  std::string name;
  std::vector<std::string> values;  // of a category or a class, sorted; empty for a number
  double mean = 0, std = 1;         // of a number
  bool indicator = false;           // of a number: a feature more, 1 where it is missing
  bool is_number() const { return values.empty(); }
  bool operator==(const Column&) const = default;
};

struct RowSchema {
  std::vector<Column> features;
  std::vector<Column> targets;  // one with values for kClass; numbers otherwise
  TargetKind kind = TargetKind::kNumbers;
  bool impute = false;  // a missing number is the mean, a missing category none of its values; else an error

  std::int64_t width() const;                // features as a network gets them
  std::vector<std::string> outputs() const;  // names: classes, labels or numbers
  bool operator==(const RowSchema&) const = default;
};
Json to_json(const RowSchema& schema);
RowSchema schema_from_json(const Json& json, const std::string& what);  // kCorrupt naming `what` and the key

// A split's rows, before they are normalised.
struct Rows {
  std::int64_t count = 0;
  std::vector<double> numbers;       // [count][columns that are numbers], in the schema's order; NaN where missing
  std::vector<std::int32_t> codes;   // [count][categories]: index into the values, -1 for none of them
  std::vector<std::int32_t> labels;  // [count] of kClass
  std::vector<double> targets;       // [count][targets] of the others
  RowSchema schema;
};

struct RowFile {
  OpenSource open;
  TableKind kind = TableKind::kCsv;
  std::string name;               // for messages
  const char* row_word = "line";  // for messages: "FILE: line 2: …"
};

// What becomes of rows that have no value in a feature. kAuto: as kMean where there are any, else as kError, so that a
// model that never saw one refuses them.
enum class Missing : std::uint8_t { kAuto, kError, kMean, kIndicator };
enum class ColumnKind : std::uint8_t { kNumber, kCategory, kIgnore };

// What a config says of the columns. The places ("train.toml:4: [data] target") begin the messages about them.
struct RowOptions {
  std::vector<std::string> targets;
  bool list = false;                          // the targets were given as a list: labels or numbers, never classes
  std::vector<std::string> features;          // empty: all columns but the targets
  std::map<std::string, ColumnKind> columns;  // that are declared; of the others their values decide
  Missing missing = Missing::kAuto;
  std::string loss;  // "" for what fits the targets
  std::string target_place, features_place, columns_place;
};

// How a table was read, for people.
struct ColumnFacts {
  std::string name;
  const char* kind = "number";  // "number", "category", "class", "label"
  bool target = false;
  std::int64_t values = 0;  // different ones, of category and class
  std::int64_t missing = 0;
};
struct TableFacts {
  std::string file;
  std::string found_out;  // TableReader::found_out()
  std::int64_t rows = 0;
  std::vector<ColumnFacts> columns;   // features in order, then targets
  std::vector<std::string> warnings;  // "train.csv: 99.8 % of `bmi` are numbers, …"
};
Json to_json(const TableFacts& facts);
// "columns of train.csv: age number, city category of 3, bmi number (1 missing); to learn: price number", of what
// to_json() gave.
std::string columns_text(const Json& facts);

// Reads the table once and decides what its columns are. kUsage for a column that does not exist (did you mean), for a
// category of too many values and for targets that do not fit the loss or what is declared; kCorrupt "FILE: line N: …"
// for a bad table.
RowSchema fit_schema(const RowFile& file, const RowOptions& options, TableFacts* facts = nullptr);
// The same for a model that goes on from one with the schema `base`: its features are read just as that one read them
// (kUsage where `options` names others, or the table lacks one), and so are its targets where they are the same.
RowSchema fit_schema_on(const RowSchema& base, const RowFile& file, const RowOptions& options,
                        TableFacts* facts = nullptr);
// Rows by a schema, with their targets or without (then labels and targets are empty). kUsage where columns that the
// schema names are missing (all of them named), kCorrupt with the line for a value that does not fit.
Rows read_rows(const RowFile& file, const RowSchema& schema, bool with_targets, Progress& progress);

// The schema with mean and std of its numbers over `of` the rows, of targets that are numbers too. What `base` (or
// nullptr) has measured keeps its measure.
RowSchema measured(const Rows& rows, const IndexSet& of, const RowSchema* base = nullptr);
// Row `index` as a network gets it, schema.width() floats.
void write_features(const Rows& rows, const RowSchema& schema, std::int64_t index, float* to);
// What the network is to say of it, a float for each target.
void write_targets(const Rows& rows, const RowSchema& schema, std::int64_t index, float* to);

}  // namespace mlx::data
