// mlx predict for models of rows: the class and its probability, the probability of each label, or the numbers.
#include <fmt/format.h>

#include "base/error.h"
#include "cmd/asked_rows.h"
#include "cmd/predictions.h"
#include "infer/answers.h"
#include "infer/examples.h"

namespace mlx::cmd {
namespace {

constexpr std::int64_t kBatch = 256;

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
  std::vector<AskedRows> tables;
  tables.reserve(options.inputs.size());
  for (const std::string& word : options.inputs)
    tables.push_back(asked_rows(word, options.split, infer::reading_of(inputs.model.about()), context));
  infer::Session session(inputs.model, {.max_batch = kBatch});
  for (const AskedRows& table : tables) {
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
