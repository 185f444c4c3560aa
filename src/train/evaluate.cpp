// The inference graph over a split in even batches; what comes out is counted by the kind of target (tally.h).

#include "train/evaluate.h"

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "graph/passes.h"
#include "graph/session.h"
#include "train/batches.h"
#include "train/tally.h"

namespace mlx::train {
namespace {

constexpr std::int64_t kBatch = 256;
constexpr std::int64_t kMostOutputs = std::int64_t{1} << 22;  // of a batch of text

// The largest batch up to `most` that cuts the split into pieces of one size, or nearly so.
std::int64_t even_batch(std::int64_t count, std::int64_t most) {
  const std::int64_t pieces = (count + most - 1) / most;
  return (count + pieces - 1) / pieces;
}

class Evaluator {
 public:
  Evaluator(const nn::Model& model, const data::Split& split, kernels::Level level, Pool& pool)
      : about_(split.about),
        source_(batches_of(split, model.preprocessing, context_of(model), whole_split(evaluation_batch(model, split)),
                           pool)),
        tally_(tally_of(split, model.preprocessing.rows ? &*model.preprocessing.rows : nullptr, pool)) {
    const auto [graph, weights] = graph::fuse(graph::to_inference(model.graph), *model.weights);
    graph::SessionOptions options;
    options.level = level;
    session_ = std::make_unique<graph::Session>(graph, weights, options, pool);
    input_ = graph.inputs.at(0);
    output_ = graph.outputs.at(0);
  }

  Evaluation run(Progress& progress) {
    warm_up();
    progress.begin("evaluating", static_cast<std::uint64_t>(about_.count), data::unit_name(about_.kind));
    std::int64_t units = 0;
    const double started = seconds_now();
    source_->start(0);
    while (const data::BatchView* batch = source_->next()) {
      check_interrupted();
      forward(*batch, batch->count);
      const kernels::Shape shape = session_->output_shape(output_);
      tally_->add(*batch, reinterpret_cast<const float*>(session_->output(output_).data()), shape.dims[shape.rank - 1]);
      units += batch->units;
      progress.advance(static_cast<std::uint64_t>(batch->units));
    }
    const double seconds = seconds_now() - started;
    progress.end();
    Evaluation out;
    out.kind = about_.kind;
    out.targets = about_.targets;
    tally_->finish(out);
    out.per_second = static_cast<double>(units) / seconds;
    return out;
  }

 private:
  static data::Loader::Options whole_split(std::int64_t batch) {
    data::Loader::Options options;
    options.batch = batch;
    return options;
  }

  // Every size of batch that will come is planned, and caches are warm, before the clock starts.
  void warm_up() {
    source_->start(0);
    const data::BatchView* batch = source_->next();
    forward(*batch, batch->count);
    const std::int64_t last = source_->examples() % batch->count;
    if (last != 0) forward(*batch, last);
  }

  void forward(const data::BatchView& batch, std::int64_t examples) {
    const data::BatchInput& input = batch.inputs.at(0);
    std::vector<std::int64_t> dims = input.dims;
    dims[0] = examples;
    session_->run({{input_, input.data, std::move(dims)}});
  }

  const data::Description& about_;
  std::unique_ptr<data::BatchSource> source_;
  std::unique_ptr<Tally> tally_;
  std::unique_ptr<graph::Session> session_;
  graph::ValueId input_ = graph::kNone, output_ = graph::kNone;
};

}  // namespace

std::int64_t evaluation_batch(const nn::Model& model, const data::Split& split) {
  const std::int64_t count = split.about.count;
  if (split.about.kind != data::Kind::kTokens) return even_batch(count, kBatch);
  const std::int64_t context = context_of(model);
  const std::int64_t windows = std::max<std::int64_t>(1, (count - 1 + context - 1) / context);
  return even_batch(windows, std::clamp<std::int64_t>(kMostOutputs / (context * split.about.outputs), 1, kBatch));
}

Evaluation evaluate(const nn::Model& model, const data::Split& split, kernels::Level level, Pool& pool,
                    Progress& progress) {
  check_fits(model, split.about);
  Evaluation out = Evaluator(model, split, level, pool).run(progress);
  out.labels = model.labels;
  if (out.labels.empty()) out.labels = split.about.names;
  return out;
}

bool Evaluation::better_than(const Evaluation& other) const {
  const bool by_accuracy = targets == data::TargetKind::kClass || targets == data::TargetKind::kLabels;
  return by_accuracy ? accuracy() > other.accuracy() : loss < other.loss;
}

void Evaluation::metric(const char* name, double value) {
  if (std::isfinite(value)) metrics.emplace_back(name, value);
}

const char* main_metric(const Evaluation& evaluation) {
  if (evaluation.targets == data::TargetKind::kTokens) return "bits_per_byte";
  return evaluation.targets == data::TargetKind::kNumbers ? "r2" : "accuracy";
}

ClassFigures class_figures(const Evaluation& evaluation, std::size_t index) {
  if (evaluation.confusion.empty()) return evaluation.classes.at(index);
  const std::int64_t right = evaluation.confusion[index][index];
  std::int64_t predicted = 0, there = 0;
  for (const std::vector<std::int64_t>& row : evaluation.confusion) predicted += row[index];
  for (const std::int64_t n : evaluation.confusion[index]) there += n;
  return figures_of(right, predicted - right, there - right);
}

}  // namespace mlx::train
