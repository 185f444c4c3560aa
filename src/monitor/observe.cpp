// One function for each kind of data, and one for answers.
#include "monitor/observe.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "data/near.h"
#include "data/quality/scan.h"
#include "infer/answers.h"
#include "infer/session.h"

namespace mlx::monitor {
namespace {

constexpr std::int64_t kBatch = 256;
constexpr std::string_view kUnknown = "(unknown to the model)";

// Of a line of text.
const std::vector<Column> kTextColumns = {{"length"},   {"words"},       {"digits"},
                                          {"capitals"}, {"punctuation"}, {"non_ascii"}};

std::vector<Column> columns_of_inputs(const infer::Model& model) {
  std::vector<Column> out;
  switch (model.signature().takes) {
    case infer::Takes::kRows:
      for (const data::Column& column : model.about().preprocessing.rows->features)
        out.push_back({column.name, column.is_number()});
      return out;
    case infer::Takes::kImages:
      return {{"brightness"}, {"contrast"}};
    case infer::Takes::kText:
      return kTextColumns;
    case infer::Takes::kTensors:
      break;
  }
  fail(ErrorKind::kUsage, "the model takes neither images, rows nor text: what it is fed cannot be compared");
}

std::vector<Column> columns_of_answers(const infer::Model& model) {
  if (model.signature().takes == infer::Takes::kText) return {};
  if (model.signature().gives == data::TargetKind::kClass)
    return {{"prediction", false, true}, {"confidence", true, true}};
  std::vector<Column> out;
  const bool labels = model.signature().gives == data::TargetKind::kLabels;
  for (const std::string& name : model.signature().labels)
    out.push_back({(labels ? "probability of " : "prediction of ") + name, true, true});
  return out;
}

// Answers of one batch, an item each; `first` is the place of their first column.
class AnswerColumns {
 public:
  explicit AnswerColumns(const infer::Model& model)
      : model_(model),
        first_(columns_of_inputs(model).size()),
        width_(static_cast<std::size_t>(model.signature().width())) {}
  void take(const infer::Logits& logits) {
    said_ = {};
    infer::append_answers(model_, logits, said_);
  }
  void add(std::int64_t item, Items& to) const {
    const double* const values = said_.values.data() + static_cast<std::size_t>(item) * width_;
    if (model_.signature().gives != data::TargetKind::kClass) {
      for (std::size_t i = 0; i < width_; ++i) to.add(first_ + i, values[i]);
      return;
    }
    const double* const likeliest = std::max_element(values, values + width_);
    if (std::isnan(*likeliest)) return;  // then all are
    to.add(first_, model_.signature().labels[static_cast<std::size_t>(likeliest - values)]);
    to.add(first_ + 1, *likeliest);
  }

 private:
  const infer::Model& model_;
  std::size_t first_, width_;
  infer::Answers said_;
};

void add_row(const data::RowView& row, const data::RowSchema& schema, Items& to) {
  std::size_t numbers = 0, codes = 0;
  for (std::size_t i = 0; i < schema.features.size(); ++i) {
    if (schema.features[i].is_number()) {
      to.add(i, row.numbers[numbers++]);  // NaN where it is missing
      continue;
    }
    const std::int32_t code = row.codes[codes++];
    if (code == data::kNoCode) continue;
    const bool known = code >= 0;
    to.add(i, known ? std::string_view(schema.features[i].values[static_cast<std::size_t>(code)]) : kUnknown);
  }
}

// Mean and standard deviation of an image's pixels from 0 to 1, undone from what a network gets.
void add_image(const float* values, std::size_t size, const data::Normalization& normalization, Items& to) {
  const std::size_t channels = std::max<std::size_t>(1, normalization.mean.size());
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < size; ++i) {
    double value = values[i];
    if (!normalization.mean.empty()) {
      const std::size_t c = i % channels;
      value = value * static_cast<double>(normalization.std[c]) + static_cast<double>(normalization.mean[c]);
    }
    sum += value, squares += value * value;
  }
  const double count = std::max(1.0, static_cast<double>(size)), mean = sum / count;
  to.add(0, mean), to.add(1, std::sqrt(std::max(0.0, squares / count - mean * mean)));
}

void add_line(std::string_view line, double words, Items& to) {
  double digits = 0, capitals = 0, marks = 0, others = 0;
  for (const char c : line) {
    const auto byte = static_cast<unsigned char>(c);
    digits += byte >= '0' && byte <= '9';
    capitals += byte >= 'A' && byte <= 'Z';
    others += byte >= 0x80;
    const bool letter = (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z';
    marks += byte > ' ' && byte < 0x7f && !letter && !(byte >= '0' && byte <= '9');
  }
  const auto length = static_cast<double>(line.size());
  const double all = std::max(1.0, length);
  const double values[] = {length, words, digits / all, capitals / all, marks / all, others / all};
  for (std::size_t i = 0; i < std::size(values); ++i) to.add(i, values[i]);
  to.next();
}

// Points become what write_features() makes of them; those that are the same then are joined.
void normalise(const data::Column& column, ColumnReference& reference) {
  ColumnReference out;
  out.column = reference.column;
  for (std::size_t i = 0; i < reference.points.size(); ++i) {
    const auto point = static_cast<double>(static_cast<float>((reference.points[i] - column.mean) / column.std));
    if (i > 0 && point <= out.points.back()) {
      out.counts.back() += reference.counts[i];
      continue;
    }
    out.points.push_back(point), out.counts.push_back(reference.counts[i]);
    if (i == 0) out.points[0] = std::nextafter(static_cast<float>(point), -std::numeric_limits<float>::infinity());
  }
  out.counts.push_back(reference.counts.back());
  if (column.indicator)
    out.missing = reference.missing;
  else
    out.counts[out.cell_of(0)] += reference.missing;  // they are the mean, 0
  reference = std::move(out);
}

void add_fed_row(const float* features, const data::RowSchema& schema, Items& to) {
  for (std::size_t i = 0; i < schema.features.size(); ++i) {
    const data::Column& column = schema.features[i];
    if (column.is_number()) {
      if (!column.indicator || features[1] == 0) to.add(i, static_cast<double>(features[0]));
      features += column.indicator ? 2 : 1;
      continue;
    }
    const float* const end = features + column.values.size();
    const float* const found = std::find(features, end, 1.0f);
    to.add(i, found == end ? kUnknown : std::string_view(column.values[static_cast<std::size_t>(found - features)]));
    features = end;
  }
}

}  // namespace

std::vector<Column> columns_of(const infer::Model& model) {
  std::vector<Column> out = columns_of_inputs(model);
  std::set<std::string> names;
  for (const Column& column : out) names.insert(column.name);
  for (Column& column : columns_of_answers(model)) {
    while (!names.insert(column.name).second) column.name = "model's " + column.name;
    out.push_back(std::move(column));
  }
  return out;
}

data::RowSchema lenient(data::RowSchema schema) {
  schema.impute = true;
  return schema;
}

void observe_rows(const infer::Model& model, const data::Rows& rows, Parts parts, Items& to, Progress& progress) {
  infer::Session session(model, {.max_batch = kBatch});
  AnswerColumns answers(model);
  const data::RowSchema& schema = *model.about().preprocessing.rows;
  progress.begin("comparing", static_cast<std::uint64_t>(rows.count), "rows");
  for (std::int64_t first = 0; first < rows.count; first += kBatch) {
    progress.check_interrupted();
    const std::int64_t taken = std::min(kBatch, rows.count - first);
    if (parts.answers) {
      for (std::int64_t i = 0; i < taken; ++i)
        data::write_features(rows[first + i], schema, session.input() + i * model.signature().example);
      answers.take(session.run(taken));
    }
    for (std::int64_t i = 0; i < taken; ++i) {
      if (parts.inputs) add_row(rows[first + i], schema, to);
      if (parts.answers) answers.add(i, to);
      to.next();
    }
    progress.advance(static_cast<std::uint64_t>(taken));
  }
  progress.end();
}

void observe_images(const infer::Model& model, const data::Dataset& images, Parts parts, Items& to,
                    Progress& progress) {
  infer::Session session(model);
  AnswerColumns answers(model);
  const data::Preprocessing& preprocessing = model.about().preprocessing;
  data::BatchOptions options;
  options.batch = std::min<std::int64_t>(kBatch, std::max<std::int64_t>(1, images.describe().count));
  const std::unique_ptr<data::BatchSource> source = images.batches(preprocessing, options, model.pool());
  const auto size = static_cast<std::size_t>(model.signature().example);
  progress.begin("comparing", static_cast<std::uint64_t>(images.describe().count), "images");
  source->start(0);
  while (const data::BatchView* const batch = source->next()) {
    progress.check_interrupted();
    if (parts.answers) answers.take(session.run(*batch, batch->count));
    const auto* const pixels = static_cast<const float*>(batch->inputs.at(0).data);
    for (std::int64_t i = 0; i < batch->count; ++i) {
      if (parts.inputs) add_image(pixels + static_cast<std::size_t>(i) * size, size, preprocessing.normalization, to);
      if (parts.answers) answers.add(i, to);
      to.next();
    }
    progress.advance(static_cast<std::uint64_t>(batch->count));
  }
  progress.end();
}

std::vector<ColumnReference> as_fed(const infer::Model& model, std::vector<ColumnReference> columns) {
  if (!model.about().preprocessing.rows) return columns;
  const data::RowSchema& schema = *model.about().preprocessing.rows;
  for (std::size_t i = 0; i < schema.features.size(); ++i) {
    if (columns[i].column.number)
      normalise(schema.features[i], columns[i]);
    else
      columns[i].counts.back() += std::exchange(columns[i].missing, 0);
  }
  return columns;
}

void observe_fed(const infer::Model& model, const float* examples, const infer::Logits& logits, Items& to) {
  AnswerColumns answers(model);
  answers.take(logits);
  const data::Preprocessing& preprocessing = model.about().preprocessing;
  const std::int64_t size = model.signature().example;
  for (std::int64_t i = 0; i < logits.rows; ++i) {
    const float* const example = examples + i * size;
    if (preprocessing.rows)
      add_fed_row(example, *preprocessing.rows, to);
    else
      add_image(example, static_cast<std::size_t>(size), preprocessing.normalization, to);
    answers.add(i, to);
    to.next();
  }
}

void observe_text(const data::StoredSplit& split, Items& to, Progress& progress) {
  const auto observe = [&](const data::Observation& line) {
    if (line.fields->size() == 2) add_line(line.fields->at(0).text, line.fields->at(1).number, to);
  };
  data::scan(split, observe, progress);
}

}  // namespace mlx::monitor
