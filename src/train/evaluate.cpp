// The inference graph over a split in even batches; loss and confusion are taken from the logits in double precision,
// example by example, so that they do not depend on how the split was cut.

#include "train/evaluate.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "graph/passes.h"
#include "graph/session.h"
#include "train/batches.h"

namespace mlx::train {
namespace {

constexpr std::int64_t kBatch = 256;

// The largest batch up to kBatch that cuts the split into pieces of one size, or nearly so.
std::int64_t even_batch(std::int64_t count) {
  const std::int64_t pieces = (count + kBatch - 1) / kBatch;
  return (count + pieces - 1) / pieces;
}

class Evaluator {
 public:
  Evaluator(const nn::Model& model, const data::Split& split, kernels::Level level, Pool& pool)
      : about_(split.about),
        tensors_(model.tensors),
        source_(batches_of(split, model.preprocessing, {.batch = even_batch(split.about.count)}, pool)) {
    const graph::Graph graph = graph::fuse(graph::to_inference(model.graph), tensors_);
    graph::SessionOptions options;
    options.level = level;
    session_ = std::make_unique<graph::Session>(graph, tensors_, options, pool);
    input_ = graph.inputs.at(0);
    logits_ = graph.outputs.at(0);
  }

  Evaluation run(Progress& progress) {
    warm_up();
    progress.begin("evaluating", static_cast<std::uint64_t>(about_.count), data::unit_name(about_.kind));
    const double started = seconds_now();
    source_->start(0);
    while (const data::BatchView* batch = source_->next()) {
      check_interrupted();
      forward(*batch, batch->count);
      count(*batch);
      progress.advance(static_cast<std::uint64_t>(batch->count));
    }
    const double seconds = seconds_now() - started;
    progress.end();
    out_.loss /= static_cast<double>(std::max<std::int64_t>(1, out_.count));
    out_.images_per_second = static_cast<double>(out_.count) / seconds;
    return out_;
  }

 private:
  // Every size of batch that will come is planned, and caches are warm, before the clock starts.
  void warm_up() {
    source_->start(0);
    const data::BatchView* batch = source_->next();
    forward(*batch, batch->count);
    const std::int64_t last = about_.count % batch->count;
    if (last != 0) forward(*batch, last);
  }

  void forward(const data::BatchView& batch, std::int64_t examples) {
    std::vector<std::int64_t> dims = batch.input_dims;
    dims[0] = examples;
    session_->run({{input_, batch.input, std::move(dims)}});
  }

  void count(const data::BatchView& batch) {
    const kernels::Shape shape = session_->output_shape(logits_);
    const std::int64_t classes = shape.dims[1];
    if (out_.confusion.empty())
      out_.confusion.assign(static_cast<std::size_t>(classes),
                            std::vector<std::int64_t>(static_cast<std::size_t>(classes)));
    const auto* logits = reinterpret_cast<const float*>(session_->output(logits_).data());
    const auto* labels = static_cast<const std::int32_t*>(batch.target);
    for (std::int64_t i = 0; i < batch.count; ++i) {
      const float* row = logits + i * classes;
      const std::int32_t truth = labels[i];
      if (truth >= classes) fail(ErrorKind::kUsage, "label {} is outside of the model's {} classes", truth, classes);
      const std::int64_t predicted = std::max_element(row, row + classes) - row;
      double sum = 0;
      for (std::int64_t c = 0; c < classes; ++c)
        sum += std::exp(static_cast<double>(row[c]) - static_cast<double>(row[predicted]));
      out_.loss += std::log(sum) + static_cast<double>(row[predicted]) - static_cast<double>(row[truth]);
      ++out_.confusion[static_cast<std::size_t>(truth)][static_cast<std::size_t>(predicted)];
      out_.correct += predicted == truth;
      ++out_.count;
    }
  }

  const data::Description& about_;
  graph::Tensors tensors_;
  std::unique_ptr<data::BatchSource> source_;
  std::unique_ptr<graph::Session> session_;
  graph::ValueId input_ = graph::kNone, logits_ = graph::kNone;
  Evaluation out_;
};

}  // namespace

Evaluation evaluate(const nn::Model& model, const data::Split& split, kernels::Level level, Pool& pool,
                    Progress& progress) {
  check_fits(model, split.about);
  Evaluation out = Evaluator(model, split, level, pool).run(progress);
  out.labels = model.labels;
  if (out.labels.empty()) out.labels = split.about.names;
  return out;
}

ClassFigures class_figures(const Evaluation& evaluation, std::size_t index) {
  ClassFigures out;
  std::int64_t predicted = 0;
  for (const std::vector<std::int64_t>& row : evaluation.confusion) predicted += row[index];
  for (const std::int64_t n : evaluation.confusion[index]) out.support += n;
  const auto right = static_cast<double>(evaluation.confusion[index][index]);
  out.precision = predicted ? right / static_cast<double>(predicted) : 0;
  out.recall = out.support ? right / static_cast<double>(out.support) : 0;
  if (out.precision + out.recall > 0) out.f1 = 2 * out.precision * out.recall / (out.precision + out.recall);
  return out;
}

Json to_json(const Evaluation& evaluation) {
  Json classes = Json::array();
  for (std::size_t i = 0; i < evaluation.confusion.size(); ++i) {
    const ClassFigures figures = class_figures(evaluation, i);
    classes.push_back({{"label", i < evaluation.labels.size() ? evaluation.labels[i] : std::to_string(i)},
                       {"precision", figures.precision},
                       {"recall", figures.recall},
                       {"f1", figures.f1},
                       {"support", figures.support}});
  }
  return {{"data", evaluation.data.text()},
          {"split", evaluation.split},
          {"count", evaluation.count},
          {"correct", evaluation.correct},
          {"accuracy", evaluation.accuracy()},
          {"loss", evaluation.loss},
          {"images_per_second", evaluation.images_per_second},
          {"classes", classes},
          {"confusion", evaluation.confusion}};
}

Evaluation evaluation_from_json(const Json& json) {
  const char* what = "evaluation";
  Evaluation out;
  out.data = Digest::parse(json_string(json, "data", what));
  out.split = json_string(json, "split", what);
  out.count = json_int(json, "count", what);
  out.correct = json_int(json, "correct", what);
  out.loss = json_number(json, "loss", what);
  out.images_per_second = json_number(json, "images_per_second", what);
  for (const Json& c : json_array(json, "classes", what)) out.labels.push_back(json_string(c, "label", what));
  const Json& rows = json_array(json, "confusion", what);
  for (const Json& row : rows) {
    if (!row.is_array() || row.size() != rows.size() || rows.size() != out.labels.size())
      fail(ErrorKind::kCorrupt, "evaluation: the confusion matrix is not square");
    std::vector<std::int64_t> values;
    for (const Json& n : row) {
      if (!n.is_number_integer())
        fail(ErrorKind::kCorrupt, "evaluation: the confusion matrix holds something else than counts");
      values.push_back(n.get<std::int64_t>());
    }
    out.confusion.push_back(std::move(values));
  }
  return out;
}

}  // namespace mlx::train
