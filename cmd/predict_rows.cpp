// mlx predict for models of rows: the class and its probability, the probability of each label, or the numbers.
#include <sys/stat.h>

#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "cmd/cli/standard_input.h"
#include "cmd/predictions.h"
#include "data/kinds/rows_dataset.h"
#include "data/readers/table_format.h"
#include "infer/answers.h"
#include "infer/examples.h"
#include "registry/repository.h"

namespace mlx::cmd {
namespace {

constexpr std::int64_t kBatch = 256;

// The rows of one file or of one split of a dataset.
struct Table {
  std::string name;
  data::Rows rows;
};

Table read_file_rows(const std::string& word, const std::string& path, const data::RowSchema& schema,
                     Context& context) {
  for (const std::string_view ending : data::kSqliteLogs) {
    struct stat log {};
    const std::string beside = path + std::string(ending);
    if (stat(beside.c_str(), &log) == 0 && log.st_size > 0) data::fail_unsettled(word, beside);
  }
  const data::FoundTable found = data::find_table(data::disk_source(path, context.progress().interruption()), word);
  const data::RowFile file{found.open, found.kind, word};
  context.progress().begin(fmt::format("reading {}", word), 0, "B");
  Table table{word, data::read_rows(file, schema, false, context.progress())};
  context.progress().end();
  return table;
}

Table read_standard_rows(const data::RowSchema& schema, Context& context) {
  constexpr std::size_t kLargest = std::size_t{1} << 36;
  const std::string name = "standard input";
  const std::string text = read_standard_input(kLargest, context.progress().interruption());
  const data::FoundTable found = data::find_nameless_table(data::memory_source(text), name);
  const data::RowFile file{found.open, found.kind, name};
  context.progress().begin("reading " + name, 0, "B");
  Table table{"-", data::read_rows(file, schema, false, context.progress())};
  context.progress().end();
  return table;
}

Table read_table(const std::string& word, const PredictOptions& options, const infer::Model& model, Context& context) {
  const data::RowSchema& schema = *model.about().preprocessing.rows;
  if (word == "-") return read_standard_rows(schema, context);
  const PredictSource source = find_source(word, context);
  if (source.is_file()) return read_file_rows(word, source.path, schema, context);
  const registry::Version& version = source.dataset;
  const data::Reading reading = infer::reading_of(model.about());
  return {fmt::format("{}:{}", version.name(), options.split),
          data::load_rows(context.repository().store(), version.digest, options.split, reading, context.progress())};
}

void add_labels(const std::string& name, const data::RowSchema& schema, const double* probabilities, Predictions& out) {
  std::string text;
  Json labels = Json::array();
  PredictionFile::Cells cells;
  for (std::size_t i = 0; i < schema.targets.size(); ++i) {
    text += fmt::format("{}{} {:.4f}", i ? "  " : "", schema.targets[i].name, probabilities[i]);
    labels.push_back({{"label", schema.targets[i].name}, {"probability", probabilities[i]}});
    cells.emplace_back(schema.targets[i].name, fmt::format("{}", probabilities[i]));
  }
  out.add(name, text, {{"labels", std::move(labels)}}, cells);
}

// Numbers in the units of the table.
void add_numbers(const std::string& name, const data::RowSchema& schema, const double* values, Predictions& out) {
  std::string text;
  Json numbers = Json::object();
  PredictionFile::Cells cells;
  for (std::size_t i = 0; i < schema.targets.size(); ++i) {
    text += fmt::format("{}{} {:.6g}", i ? "  " : "", schema.targets[i].name, values[i]);
    numbers[schema.targets[i].name] = values[i];
    cells.emplace_back(schema.targets[i].name, fmt::format("{}", values[i]));
  }
  out.add(name, text, {{"values", std::move(numbers)}}, cells);
}

}  // namespace

int predict_rows(const PredictOptions& options, const PredictInputs& inputs, Context& context) {
  if (options.inputs.empty()) {
    throw Error(ErrorKind::kUsage, fmt::format("{} reads rows: name some", inputs.version.name()),
                "files (CSV, TSV, JSON lines, npy, npz, safetensors, Parquet, SQLite), a dataset with --split, or - "
                "for standard input");
  }
  Predictions predictions("row", options, inputs, context);
  const data::RowSchema& schema = *inputs.model.about().preprocessing.rows;
  const auto outputs = inputs.model.signature().width();
  std::vector<Table> tables;
  tables.reserve(options.inputs.size());
  for (const std::string& word : options.inputs) tables.push_back(read_table(word, options, inputs.model, context));
  infer::Session session(inputs.model, {.max_batch = kBatch});
  for (const Table& table : tables) {
    const infer::Answers said = infer::answer_rows(session, table.rows, context.progress());
    for (std::int64_t i = 0; i < said.count; ++i) {
      const std::string name = fmt::format("{}[{}]", table.name, i);
      const double* const row = said.values.data() + i * outputs;
      predictions.look_at({row, static_cast<std::size_t>(outputs)});
      if (schema.kind == data::TargetKind::kClass)
        predictions.add(name, rank_classes({row, static_cast<std::size_t>(outputs)}, options.top));
      else if (schema.kind == data::TargetKind::kLabels)
        add_labels(name, schema, row, predictions);
      else
        add_numbers(name, schema, row, predictions);
    }
  }
  predictions.finish();
  return 0;
}

}  // namespace mlx::cmd
