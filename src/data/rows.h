// Tables as examples: some columns are features, others targets. The training split determines which columns are
// numbers and which are categories (the schema). Every other split, and the input of `mlx predict`, is read by the same
// schema, which is therefore part of the model.
//
// A number becomes (v - mean) / std with the training split's mean and std. A category becomes one feature for each of
// its values (one-hot), all 0 for a value that the training split lacks. Columns of true and false are categories. A
// missing number becomes the mean; on request, one more feature marks it as missing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "base/progress.h"
#include "data/kind.h"
#include "data/order.h"
#include "data/readers/table.h"

namespace mlx::data {

struct Column {
  std::string name;
  std::vector<std::string> values;  // of a category or a class, sorted; empty for a number
  double mean = 0, std = 1;         // of a number
  bool indicator = false;           // for a number: one more feature, 1 if it is missing
  bool is_number() const { return values.empty(); }
  bool operator==(const Column&) const = default;
};

struct RowSchema {
  std::vector<Column> features;
  std::vector<Column> targets;  // for kClass one with values; else numbers
  TargetKind kind = TargetKind::kNumbers;
  bool impute = false;  // a missing number becomes the mean, a missing category none of its values; else an error

  std::int64_t width() const;                // features as a network gets them
  std::vector<std::string> outputs() const;  // names: classes, labels or numbers
  bool operator==(const RowSchema&) const = default;
};
Json to_json(const RowSchema& schema);
RowSchema schema_from_json(const Json& json, const std::string& what);  // kCorrupt naming `what` and the key

// A row before it is normalised. Its pointers are valid as long as what holds it says.
struct RowView {
  const double* numbers = nullptr;  // of the columns that are numbers, in the schema's order; NaN where missing
  const double* targets = nullptr;  // unless of kClass
  // Of the categories: index into the values, or code_of_unknown() or kNoCode (near.h).
  const std::int32_t* codes = nullptr;
  std::int32_t label = 0;  // of kClass
};

// The same for rows at equal distances from each other, to be written.
struct RowRoom {
  template <typename T>
  struct Places {
    T* first = nullptr;
    std::size_t step = 0;
    T* operator[](std::size_t row) const { return first + row * step; }
  };
  Places<double> numbers, targets;
  Places<std::int32_t> codes, labels;
};

// What rows are read into.
class RowSink {
 public:
  virtual ~RowSink() = default;
  // Room for `rows` rows after those that were taken, until the next call. What stands there means nothing.
  virtual RowRoom room(std::size_t rows) = 0;
  // The first `rows` of that room are written.
  virtual void take(std::size_t rows) = 0;
};

// Elements that a vector adds are not set: they are written next.
template <typename T>
struct NotSet : std::allocator<T> {
  template <typename U>
  struct rebind {
    using other = NotSet<U>;
  };
  void construct(T* at) noexcept { ::new (at) T; }
  template <typename... Args>
  void construct(T* at, Args&&... args) {
    ::new (at) T(std::forward<Args>(args)...);
  }
};
template <typename T>
using RowValues = std::vector<T, NotSet<T>>;

// A table's rows in memory, before they are normalised.
struct Rows {
  std::int64_t count = 0;
  RowValues<double> numbers;       // [count][columns that are numbers], in the schema's order; NaN where missing
  RowValues<std::int32_t> codes;   // [count][categories]: index into the values, or code_of_unknown() or kNoCode
  RowValues<std::int32_t> labels;  // [count] of kClass
  RowValues<double> targets;       // [count][targets] of the others
  RowSchema schema;
  RowView operator[](std::int64_t index) const;
  Rows chosen(const IndexSet& items) const;  // a copy of these rows
};

struct RowFile {
  OpenSource open;
  TableKind kind = TableKind::kCsv;
  std::string name;               // for messages
  const char* row_word = "line";  // of text formats, for messages: "FILE: line 2: …"
  std::string table{};            // of a file with several tables; "" for the only one
};
std::unique_ptr<TableReader> read_table(const RowFile& file);

// What to do with rows that lack a feature's value. kAuto is kMean if the training split has such rows, else kError, so
// that a model that never saw one refuses them.
enum class Missing : std::uint8_t { kAuto, kError, kMean, kIndicator };
enum class ColumnKind : std::uint8_t { kNumber, kCategory, kIgnore };

// A config's options for columns. Messages about them begin with the locations ("train.toml:4: [data] target").
struct RowOptions {
  std::vector<std::string> targets;
  bool list = false;                          // the targets are a list: labels or numbers, never classes
  std::vector<std::string> features;          // empty: all columns but the targets
  std::map<std::string, ColumnKind> columns;  // declared columns; other columns' kinds follow from their values
  Missing missing = Missing::kAuto;
  std::string loss;  // "": the loss that fits the targets
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
// "columns of train.csv: age number, city category of 3, bmi number (1 missing); to learn: price number", from the
// result of to_json().
std::string columns_text(const Json& facts);

// Reads the table once and determines the kinds of its columns. Throws kUsage for a column that does not exist (with a
// did-you-mean), for a category with too many values, and for targets that do not fit the loss or their declaration;
// kCorrupt "FILE: line N: …" for a bad table.
RowSchema fit_schema(const RowFile& file, const RowOptions& options, TableFacts* facts = nullptr);
// The same for a model that continues from one with the schema `base`. Its features are read exactly as the base's are
// (kUsage if `options` names others, or if the table lacks one), and so are its targets if they are the same.
RowSchema fit_schema_on(const RowSchema& base, const RowFile& file, const RowOptions& options,
                        TableFacts* facts = nullptr);
// Reads rows by a schema, with or without targets (labels and targets are then empty). Throws kUsage if columns of the
// schema are missing, naming all of them; kCorrupt with the line for a value that does not fit.
Rows read_rows(const RowFile& file, const RowSchema& schema, bool with_targets, Progress& progress);
// The same into a sink, in order.
void read_rows(const RowFile& file, const RowSchema& schema, bool with_targets, RowSink& sink, Progress& progress);

// The schema with mean and std of its numbers over rows, of targets that are numbers too. `scan` calls its argument
// with each row, in the same order every time. What `base` (or nullptr) has measured keeps its measure.
using TakeRow = std::function<void(const RowView&)>;
using ScanRows = std::function<void(const TakeRow&)>;
RowSchema measured(RowSchema schema, const ScanRows& scan, const RowSchema* base = nullptr);
// Writes a row as network input: schema.width() floats.
void write_features(const RowView& row, const RowSchema& schema, float* to);
// Writes its targets, one float each.
void write_targets(const RowView& row, const RowSchema& schema, float* to);

}  // namespace mlx::data
