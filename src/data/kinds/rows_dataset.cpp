// Rows as a dataset: a table's file, an index set over its rows in a spool, batches by a schema.

#include "data/kinds/rows_dataset.h"
#include "data/spool_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "data/content_hash.h"
#include "data/division.h"
#include "data/kinds/scans.h"
#include "data/readers/table_format.h"
#include "data/splits.h"

namespace mlx::data {
namespace {

// Where the values of a row stand in its record: numbers, targets, codes, label. The size is a multiple of 8, so that
// every record is aligned.
struct RecordLayout {
  std::int64_t numbers = 0, targets = 0, codes = 0, bytes = 0;

  explicit RecordLayout(const RowSchema& schema) {
    numbers = std::ranges::count_if(schema.features, &Column::is_number);
    codes = static_cast<std::int64_t>(schema.features.size()) - numbers;
    const bool classes = schema.kind == TargetKind::kClass;
    if (!classes) targets = static_cast<std::int64_t>(schema.targets.size());
    bytes = 8 * (numbers + targets) + (4 * (codes + classes) + 7) / 8 * 8;
  }
  RowView view(const std::uint8_t* record) const {
    const auto* const wide = reinterpret_cast<const double*>(record);
    const auto* const narrow = reinterpret_cast<const std::int32_t*>(wide + numbers + targets);
    return {wide, wide + numbers, narrow, targets == 0 ? narrow[codes] : 0};
  }
  RowRoom room(double* records) const {
    auto* const narrow = reinterpret_cast<std::int32_t*>(records + numbers + targets);
    const auto wide_step = static_cast<std::size_t>(bytes / 8), narrow_step = static_cast<std::size_t>(bytes / 4);
    return {{records, wide_step}, {records + numbers, wide_step}, {narrow, narrow_step}, {narrow + codes, narrow_step}};
  }
};

// Rows as records; of a part of a division only those that are in it.
class RowSpooler final : public RowSink {
 public:
  RowSpooler(const RowSchema& schema, const MemoryBudget& budget, std::optional<IndexSet> chosen = {})
      : layout_(schema), writer_(layout_.bytes, budget), chosen_(std::move(chosen)) {}
  RowRoom room(std::size_t rows) override {
    records_.resize(std::max(records_.size(), rows * static_cast<std::size_t>(layout_.bytes / 8)));
    return layout_.room(records_.data());
  }
  void take(std::size_t rows) override {
    const auto* const records = reinterpret_cast<const std::uint8_t*>(records_.data());
    const auto count = static_cast<std::int64_t>(rows);
    if (!chosen_) return writer_.append(records, count);
    for (; next_ < chosen_->size() && (*chosen_)[next_] < passed_ + count; ++next_)
      writer_.append(records + ((*chosen_)[next_] - passed_) * layout_.bytes, 1);
    passed_ += count;
  }
  SpoolPtr finish() { return writer_.finish(); }

 private:
  RecordLayout layout_;
  SpoolWriter writer_;
  std::optional<IndexSet> chosen_;
  std::int64_t next_ = 0, passed_ = 0;  // of chosen_; rows
  std::vector<double> records_;         // what is between values stays 0
};

// A row as a network gets it: f32 features, then f32 targets or the s32 label.
class ExampleLayout {
 public:
  explicit ExampleLayout(const RowSchema& schema)
      : features_(schema.width()),
        classes_(schema.kind == TargetKind::kClass),
        targets_(classes_ ? 1 : schema.targets.size()) {}
  std::int64_t features() const { return features_; }
  std::int64_t targets() const { return targets_; }
  std::int64_t bytes() const { return 4 * (features_ + targets_); }
  void write(const RowView& row, const RowSchema& schema, float* features, std::uint8_t* target) const {
    write_features(row, schema, features);
    if (classes_)
      std::memcpy(target, &row.label, sizeof row.label);
    else
      write_targets(row, schema, reinterpret_cast<float*>(target));
  }

 private:
  std::int64_t features_;
  bool classes_;
  std::int64_t targets_;
};

// The items as a network gets them.
SpoolPtr convert(const Spool& rows, const IndexSet& items, const RowSchema& schema, Pool& pool) {
  constexpr std::int64_t kAtOnce = 4096, kSlice = 64;
  const RecordLayout from(schema);
  const ExampleLayout to(schema);
  SpoolWriter writer(to.bytes(), rows.budget());
  std::vector<float> made(static_cast<std::size_t>(kAtOnce * to.bytes() / 4));
  for (std::int64_t begin = 0; begin < items.size(); begin += kAtOnce) {
    const std::int64_t count = std::min(kAtOnce, items.size() - begin);
    pool.run((count + kSlice - 1) / kSlice, [&](std::int64_t slice) {
      std::int64_t i = slice * kSlice;
      const IndexSet some = items.part({begin + i, begin + std::min(count, i + kSlice)});
      rows.scan(some, [&](const std::uint8_t* record) {
        float* const example = made.data() + i++ * to.bytes() / 4;
        to.write(from.view(record), schema, example, reinterpret_cast<std::uint8_t*>(example + to.features()));
      });
    });
    writer.append(made.data(), count);
  }
  return writer.finish();
}

// Converts once for all epochs if examples are smaller than rows: random access is what a batch costs. Null if there is
// no room for them, in memory beside rows in memory, else on the disk.
SpoolPtr make_examples(const Spool& rows, const IndexSet& items, const RowSchema& schema, Pool& pool) {
  const std::int64_t bytes = ExampleLayout(schema).bytes();
  if (bytes > RecordLayout(schema).bytes) return nullptr;
  if (rows.in_memory() && !rows.budget().has(items.size() * bytes)) return nullptr;
  try {
    return convert(rows, items, schema, pool);
  } catch (const Error& error) {
    if (rows.in_memory() || error.kind != ErrorKind::kIo) throw;
    return nullptr;
  }
}

// f32[count,features] "features" and s32[count] or f32[count,targets], made on all threads of the pool.
class RowBatches final : public BatchSource {
 public:
  RowBatches(SpoolPtr rows, IndexSet items, const RowSchema& schema, const BatchOptions& options, Pool& pool)
      : pool_(pool),
        items_(std::move(items)),
        schema_(schema),
        layout_(schema),
        example_(schema),
        order_(items_.size(), options),
        examples_(options.shuffle ? make_examples(*rows, items_, schema, pool) : nullptr),
        reader_(examples_ ? examples_ : std::move(rows), pool) {
    view_.inputs = {{rows_kind.input, nullptr, {0, example_.features()}}};
    view_.target_dims = {0};
    if (schema.kind != TargetKind::kClass) view_.target_dims.push_back(example_.targets());
    start(0, 0);
  }
  std::int64_t batches() const override { return order_.batches(); }
  std::int64_t examples() const override { return order_.count(); }
  void start(std::uint64_t epoch, std::int64_t first) override {
    reader_.stop();
    order_.start(epoch, first);
    const auto record = [this](std::int64_t place) { return examples_ ? order_.at(place) : items_[order_.at(place)]; };
    reader_.start({record, order_.next(), order_.end(), order_.batch()});
  }
  const BatchView* next() override {
    const std::span<const std::uint8_t* const> records = reader_.next();
    const auto count = static_cast<std::int64_t>(records.size());
    if (count == 0) return nullptr;
    features_.resize(static_cast<std::size_t>(count * example_.features()));
    targets_.resize(static_cast<std::size_t>(4 * count * example_.targets()));
    const std::int64_t rows = std::max<std::int64_t>(1, kSlice / reader_.record());
    pool_.run((count + rows - 1) / rows, [&](std::int64_t slice) {
      for (std::int64_t i = slice * rows; i < std::min(count, (slice + 1) * rows); ++i) write(i, records);
    });
    view_.count = view_.units = view_.inputs[0].dims[0] = view_.target_dims[0] = count;
    view_.inputs[0].data = features_.data();
    view_.target = targets_.data();
    return &view_;
  }

 private:
  static constexpr std::int64_t kSlice = 16 << 10;  // bytes of records: waking a thread takes longer than fewer

  void write(std::int64_t i, std::span<const std::uint8_t* const> records) {
    if (const auto later = static_cast<std::size_t>(i + 2); later < records.size())
      prefetch(records[later], reader_.record());
    const std::uint8_t* const record = records[static_cast<std::size_t>(i)];
    float* const features = features_.data() + i * example_.features();
    std::uint8_t* const target = targets_.data() + 4 * i * example_.targets();
    if (!examples_) return example_.write(layout_.view(record), schema_, features, target);
    const auto size = static_cast<std::size_t>(4 * example_.features());
    std::memcpy(features, record, size);
    std::memcpy(target, record + size, static_cast<std::size_t>(4 * example_.targets()));
  }

  Pool& pool_;
  IndexSet items_;
  RowSchema schema_;
  RecordLayout layout_;
  ExampleLayout example_;
  Order order_;
  std::vector<float> features_;
  Bytes targets_;  // f32 or s32
  BatchView view_;
  SpoolPtr examples_;   // what the reader reads; null: rows
  SpoolReader reader_;  // last: threads that read for it read the order
};

// Near hashes of rows as a model reads them. The values of categories are folded once.
class NearContents {
 public:
  explicit NearContents(const RowSchema& schema) : classes_(schema.kind == TargetKind::kClass) {
    for (const Column& column : schema.features) add(column);
    for (const Column& column : schema.targets)
      classes_ ? add(column) : targets_.push_back(hash_of("target " + column.name));
  }
  NearHashes of(const RowView& row) {
    for (std::size_t i = 0; i < numbers_.size(); ++i)
      if (!std::isnan(row.numbers[i])) row_.number(numbers_[i], row.numbers[i]);
    for (std::size_t i = 0; i < targets_.size(); ++i)
      if (!std::isnan(row.targets[i])) row_.number(targets_[i], row.targets[i]);
    const std::size_t codes = categories_.size() - (classes_ ? 1 : 0);
    for (std::size_t i = 0; i < codes; ++i) add_code(categories_[i], row.codes[i]);
    if (classes_) add_code(categories_.back(), row.label);
    return row_.finish();
  }

 private:
  struct Category {
    std::uint64_t column = 0;
    std::vector<std::uint64_t> values;
  };
  void add(const Column& column) {
    const std::uint64_t name = hash_of(column.name);
    if (column.is_number()) return numbers_.push_back(name);
    Category& category = categories_.emplace_back(Category{name, {}});
    for (const std::string& value : column.values) category.values.push_back(row_.folded_hash(value) & kCodeBits);
  }
  void add_code(const Category& category, std::int32_t code) {
    if (code == kNoCode) return;
    row_.folded(category.column, code >= 0 ? category.values[static_cast<std::size_t>(code)]
                                           : static_cast<std::uint64_t>(kNoCode - 1 - code));
  }

  bool classes_;
  std::vector<std::uint64_t> numbers_, targets_;
  std::vector<Category> categories_;
  NearRow row_;
};

Description description_of_rows(const RowSchema& schema, std::int64_t count) {
  Description out;
  out.kind = &rows_kind;
  out.targets = schema.kind;
  out.count = count;
  out.features = schema.width();
  out.names = schema.outputs();
  out.outputs = static_cast<int>(out.names.size());
  return out;
}

class RowsDataset final : public Dataset {
 public:
  RowsDataset(SpooledRows rows, IndexSet items)
      : rows_(std::move(rows)), items_(std::move(items)), about_(description_of_rows(rows_.schema, items_.size())) {
    about_.set_spool(*rows_.rows, items_.size());
  }

  const Description& describe() const override { return about_; }
  DatasetPtr subset(const IndexSet& items) const override {
    return std::make_shared<RowsDataset>(rows_, items_.part(items));
  }
  Preprocessing measure(const Preprocessing* base) const override {
    Preprocessing out;
    const auto scan = [&](const TakeRow& take) { scan_rows(take); };
    out.rows = measured(rows_.schema, scan, base && base->rows ? &*base->rows : nullptr);
    return out;
  }
  // Of what the model reads of a row: columns that it ignores, such as numbers of rows, do not make rows differ.
  void each_content(bool near, const std::function<void(const Content&)>& visit) const override {
    const RecordLayout layout(rows_.schema);
    const auto size = static_cast<std::size_t>(layout.bytes);
    NearContents nears(rows_.schema);
    rows_.rows->scan(items_, [&](const std::uint8_t* record) {
      Content content{hash_of({reinterpret_cast<const char*>(record), size})};
      if (near) content.near = nears.of(layout.view(record));
      visit(content);
    });
  }
  std::string item_text(std::int64_t index) const override { return fmt::format("row {}", index + 1); }
  std::unique_ptr<BatchSource> batches(const Preprocessing& preprocessing, const BatchOptions& options,
                                       Pool& pool) const override {
    if (!preprocessing.rows) fail(ErrorKind::kUsage, "the model does not say which columns it takes");
    CHECK(RecordLayout(*preprocessing.rows).bytes == rows_.rows->record());
    return std::make_unique<RowBatches>(rows_.rows, items_, *preprocessing.rows, options, pool);
  }

 private:
  void scan_rows(const TakeRow& take) const {
    const RecordLayout layout(rows_.schema);
    rows_.rows->scan(items_, [&](const std::uint8_t* record) { take(layout.view(record)); });
  }

  SpooledRows rows_;
  IndexSet items_;
  Description about_;
};

// In the order of Missing and ColumnKind.
constexpr std::array kMissingWords = {"auto", "error", "mean", "indicator"};
constexpr std::array kColumnWords = {"number", "category", "ignore"};

template <std::size_t kCount>
std::vector<std::string> words(const std::array<const char*, kCount>& from) {
  return {from.begin(), from.end()};
}
template <std::size_t kCount>
std::size_t index_of(const std::array<const char*, kCount>& words, const std::string& word) {
  return static_cast<std::size_t>(std::ranges::find(words, word) - words.begin());
}

void read_row_keys(TomlReader& data, Reading& reading) {
  const auto place = [&](const char* key) { return fmt::format("{}: [data] {}", data.place(key), key); };
  RowOptions& rows = reading.rows;
  rows.target_place = place("target");
  rows.features_place = place("features");
  rows.list = data.is_array("target");
  if (rows.list) {
    rows.targets = data.strings("target");
    if (rows.targets.empty()) data.fail_at("target", "expected at least one column");
  } else if (data.has("target")) {
    rows.targets = {data.string("target")};
  } else {
    (void)data.string("target", "");
  }
  rows.features = data.strings("features", std::vector<std::string>{});
  if (data.has("features") && rows.features.empty()) data.fail_at("features", "expected at least one column");
  rows.missing = static_cast<Missing>(index_of(kMissingWords, data.one_of("missing", words(kMissingWords), "auto")));
  rows.columns_place = fmt::format("{}: [data.columns]", data.place("columns"));
  TomlReader columns = data.table("columns");
  for (const std::string& name : columns.keys()) {
    const std::string kind = columns.one_of(name, words(kColumnWords));
    rows.columns[name] = static_cast<ColumnKind>(index_of(kColumnWords, kind));
  }
}

// Only what is not the default.
void write_row_keys(const Reading& reading, Json& data) {
  const RowOptions& rows = reading.rows;
  if (rows.list) {
    data["target"] = rows.targets;
  } else if (!rows.targets.empty()) {
    data["target"] = rows.targets[0];
  }
  if (!rows.features.empty()) data["features"] = rows.features;
  if (rows.missing != Missing::kAuto) data["missing"] = kMissingWords[static_cast<std::size_t>(rows.missing)];
  for (const auto& [name, kind] : rows.columns) data["columns"][name] = kColumnWords[static_cast<std::size_t>(kind)];
}

const char* row_key_set(const Reading& reading) {
  const RowOptions& rows = reading.rows;
  if (!rows.targets.empty()) return "target";
  if (!rows.features.empty()) return "features";
  if (rows.missing != Missing::kAuto) return "missing";
  return rows.columns.empty() ? nullptr : "columns";
}

// A database whose last changes lie in a file beside it is not whole.
void check_settled(const store::Entry& table, const Files& files) {
  for (const std::string_view ending : kSqliteLogs)
    if (const auto log = files.find(table.path + std::string(ending)); log != files.end() && log->second.size > 0)
      fail_unsettled(table.path, log->first);
}

void find_row_splits(const Files& files, Layout& layout) {
  const std::vector<store::Entry> tables = files_with(files, table_endings());
  for (const store::Entry& table : tables) check_settled(table, files);
  for (const store::Entry& table : tables) {
    const std::string split = split_named(stem_with(table.path, table_endings()));
    if (!split.empty()) add_split(layout, split, {&rows_kind, {table}}, "rows");
  }
  if (layout.splits.empty() && tables.size() == 1) layout.splits["train"] = {&rows_kind, tables};
}

std::vector<store::Entry> declared_rows(TomlReader& split, const Files& files) {
  store::Entry table = declared_file(split, "rows", split.string("rows"), files);
  if (!table_kind(table.path))
    split.fail_at("rows", fmt::format("expected a file that ends in {}, text also in .gz or .zst after it",
                                      table_endings_text()));
  check_settled(table, files);
  return {std::move(table)};
}

RowSchema schema_of(const RowFile& file, const Reading& reading, TableFacts* facts = nullptr) {
  RowOptions options = reading.rows;
  options.loss = reading.loss;
  if (reading.base && reading.base->rows) return fit_schema_on(*reading.base->rows, file, options, facts);
  return fit_schema(file, options, facts);
}

// The rows of the file that are in the split.
IndexSet rows_in(const StoredSplit& split, const RowFile& file) {
  return items_of(divide_rows(file, split.part->rule, split.store->interruption()), split.part->part);
}

Description describe_stored_rows(const StoredSplit& split, const Reading& reading) {
  TableFacts facts;
  const RowFile file = row_file(split);
  const RowSchema schema = schema_of(file, reading, &facts);
  if (split.part) facts.rows = rows_in(split, file).size();
  Description out = description_of_rows(schema, facts.rows);
  out.table = std::move(facts);
  return out;
}

// Reads the split by `read(file, schema)`.
template <typename Read>
auto read_stored_rows(const StoredSplit& split, const Reading& reading, Progress& progress, Read&& read) {
  split.store->want(split.files);
  const RowFile file = row_file(split);
  progress.begin(fmt::format("reading {}", file.name), 0, "B");
  const bool fitted = reading.fitted && reading.fitted->rows;
  const RowSchema schema = fitted ? *reading.fitted->rows : schema_of(file, reading);
  auto rows = read(file, schema);
  progress.end();
  return rows;
}

DatasetPtr load_stored_rows(const StoredSplit& split, const Reading& reading, Progress& progress) {
  return make_dataset(read_stored_rows(split, reading, progress, [&](const RowFile& file, const RowSchema& schema) {
    RowSpooler spooler(schema, reading.budget, split.part ? std::optional(rows_in(split, file)) : std::nullopt);
    read_rows(file, schema, true, spooler, progress);
    return SpooledRows{schema, spooler.finish()};
  }));
}

}  // namespace

const Kind rows_kind = {
    .name = "rows",
    .input = "features",
    .unit = "rows",
    .form = Form::kFeatures,
    .divides = true,
    .read_keys = read_row_keys,
    .write_keys = write_row_keys,
    .key_set = row_key_set,
    .file_names = "train.csv, train.jsonl",
    .find_splits = find_row_splits,
    .declared = declared_rows,
    .scan = &rows_scan,
    .describe = describe_stored_rows,
    .load = load_stored_rows,
};

RowFile row_file(const StoredSplit& split) {
  const store::Entry& entry = split.files.at(0);
  const FoundTable found = find_table(stored_source(*split.store, entry.content), entry.path);
  return {found.open, found.kind, entry.path, "line", split.table};
}

SpooledRows spool_rows(const Rows& rows, const MemoryBudget& budget) {
  RowSpooler spooler(rows.schema, budget);
  const std::size_t numbers = std::ranges::count_if(rows.schema.features, &Column::is_number);
  const bool classes = rows.schema.kind == TargetKind::kClass;
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const RowRoom to = spooler.room(1);
    const RowView row = rows[i];
    std::copy_n(row.numbers, numbers, to.numbers[0]);
    std::copy_n(row.codes, rows.schema.features.size() - numbers, to.codes[0]);
    if (classes)
      *to.labels[0] = row.label;
    else
      std::copy_n(row.targets, rows.schema.targets.size(), to.targets[0]);
    spooler.take(1);
  }
  return {rows.schema, spooler.finish()};
}

DatasetPtr make_dataset(SpooledRows rows) {
  const IndexSet all(0, rows.rows->count());
  return std::make_shared<RowsDataset>(std::move(rows), all);
}

Rows load_rows(const store::Store& store, const Digest& manifest, const std::string& split, const Reading& reading,
               Progress& progress) {
  const StoredSplit stored =
      stored_split(store, manifest, split, rows_kind, reading.division ? &*reading.division : nullptr);
  return read_stored_rows(stored, reading, progress, [&](const RowFile& file, const RowSchema& schema) {
    const Rows all = read_rows(file, schema, true, progress);
    return stored.part ? all.chosen(rows_in(stored, file)) : all;
  });
}

}  // namespace mlx::data
