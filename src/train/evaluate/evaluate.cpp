// Runs a model over a split in even batches; a tally for the kind of target (tally.h) collects its outputs.

#include "train/evaluate/evaluate.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "graph/passes/passes.h"
#include "infer/examples.h"
#include "infer/session.h"
#include "train/evaluate/tally.h"

namespace mlx::train {
namespace {

constexpr std::int64_t kBatch = 256;
constexpr std::int64_t kMostOutputs = std::int64_t{1} << 22;  // of a batch

// The largest batch up to `most` that cuts the split into pieces of equal size, or nearly so.
std::int64_t even_batch(std::int64_t count, std::int64_t most) {
  const std::int64_t pieces = (count + most - 1) / most;
  return (count + pieces - 1) / pieces;
}

data::BatchOptions whole_split(const data::Description& about, std::int64_t context) {
  data::BatchOptions options;
  options.batch = evaluation_batch(about, context);
  options.context = context;
  return options;
}

class Evaluator {
 public:
  Evaluator(const infer::Model& model, const data::Dataset& dataset)
      : about_(dataset.describe()),
        session_(model),
        source_(dataset.batches(model.about().preprocessing, whole_split(about_, infer::context_of(model.about())),
                                model.pool())),
        tally_(tally_of(about_, model.about().preprocessing, model.pool())) {}

  Evaluation run(Progress& progress) {
    warm_up();
    progress.begin("evaluating", static_cast<std::uint64_t>(about_.count), about_.kind->unit);
    std::int64_t units = 0;
    const double started = seconds_now();
    source_->start(0);
    while (const data::BatchView* batch = source_->next()) {
      progress.check_interrupted();
      const infer::Logits logits = session_.run(*batch, batch->count);
      tally_->add(*batch, logits.values, logits.width);
      units += batch->units;
      progress.advance(static_cast<std::uint64_t>(batch->units));
    }
    const double seconds = seconds_now() - started;
    progress.end();
    Evaluation out;
    out.unit = about_.kind->unit;
    out.targets = about_.targets;
    tally_->finish(out);
    out.per_second = static_cast<double>(units) / seconds;
    return out;
  }

 private:
  // Plans every size of batch that will occur, and warms caches, before the clock starts.
  void warm_up() {
    source_->start(0);
    const data::BatchView* batch = source_->next();
    session_.run(*batch, batch->count);
    const std::int64_t last = source_->examples() % batch->count;
    if (last != 0) session_.run(*batch, last);
  }

  const data::Description& about_;
  infer::Session session_;
  std::unique_ptr<data::BatchSource> source_;
  std::unique_ptr<Tally> tally_;
};

}  // namespace

std::int64_t evaluation_batch(const data::Description& about, std::int64_t context) {
  const std::int64_t outputs = about.predictions(context) * about.outputs;  // of one example
  return even_batch(about.examples(context), std::clamp<std::int64_t>(kMostOutputs / outputs, 1, kBatch));
}

Evaluation evaluate(const nn::Model& model, const data::Dataset& dataset, kernels::Backend backend, Pool& pool,
                    Progress& progress) {
  infer::check_fits(model, dataset.describe());
  if (graph::is_encoder(graph::to_inference(model.graph)))
    fail(ErrorKind::kUsage, "an encoder gives vectors: it predicts no tokens that could be compared with the data's");
  Evaluation out = Evaluator(infer::Model(model, backend, pool), dataset).run(progress);
  out.labels = model.labels;
  if (out.labels.empty()) out.labels = dataset.describe().names;
  return out;
}

void Evaluation::metric(const char* name, double value) {
  if (std::isfinite(value)) metrics.emplace_back(name, value);
}

const char* main_metric(const Evaluation& evaluation) {
  if (evaluation.targets == data::TargetKind::kTokens) return "bits_per_byte";
  return evaluation.targets == data::TargetKind::kNumbers ? "r2" : "accuracy";
}

ClassMetrics class_metrics(const Evaluation& evaluation, std::size_t index) {
  if (evaluation.confusion.empty()) return evaluation.classes.at(index);
  const std::int64_t right = evaluation.confusion[index][index];
  std::int64_t predicted = 0, there = 0;
  for (const std::vector<std::int64_t>& row : evaluation.confusion) predicted += row[index];
  for (const std::int64_t n : evaluation.confusion[index]) there += n;
  return metrics_of(right, predicted - right, there - right);
}

}  // namespace mlx::train
