// A kind of dataset that nobody above src/data knows, with no example in memory: it is described, cut, batched, trained
// on and evaluated like the others. A streamed dataset is one more such kind.
#include <doctest/doctest.h>

#include <cmath>

#include "kernels/philox.h"
#include "memory_sink.h"
#include "train/build_model.h"
#include "train/evaluate/evaluate.h"
#include "train/loop/training_loop.h"

namespace mlx::train::test {
namespace {

// Points of the plane, in rings around the origin; which ring is to be learned.
const data::Kind kPoints = {
    .name = "points",
    .input = "features",
    .unit = "points",
    .form = data::Form::kFeatures,
    .optimizer = "adamw",
};

class PointBatches final : public data::BatchSource {
 public:
  PointBatches(data::IndexSet items, const data::BatchOptions& options)
      : items_(std::move(items)), order_(items_.size(), options) {
    view_.inputs = {{kPoints.input, nullptr, {0, 2}}};
    view_.target_dims = {0};
    order_.start(0, 0);
  }
  std::int64_t batches() const override { return order_.batches(); }
  std::int64_t examples() const override { return order_.count(); }
  void start(std::uint64_t epoch, std::int64_t first) override { order_.start(epoch, first); }
  const data::BatchView* next() override {
    const std::int64_t count = order_.advance();
    if (count == 0) return nullptr;
    points_.clear(), rings_.clear();
    for (std::int64_t i = 0; i < count; ++i) make(static_cast<std::uint64_t>(items_[order_.at(order_.begin() + i)]));
    view_.count = view_.units = view_.inputs[0].dims[0] = view_.target_dims[0] = count;
    view_.inputs[0].data = points_.data();
    view_.target = rings_.data();
    return &view_;
  }

 private:
  void make(std::uint64_t index) {
    const auto ring = static_cast<std::int32_t>(index % 3);
    const double angle = kernels::random_u32(1, 2, index, 0) * 0x1p-31 * 3.14159;
    for (const double part : {std::cos(angle), std::sin(angle)})
      points_.push_back(static_cast<float>((ring + 1) * part));
    rings_.push_back(ring);
  }

  data::IndexSet items_;
  data::Order order_;
  std::vector<float> points_;
  std::vector<std::int32_t> rings_;
  data::BatchView view_;
};

class Points final : public data::Dataset {
 public:
  explicit Points(data::IndexSet items) : items_(std::move(items)) {
    about_.kind = &kPoints;
    about_.count = items_.size();
    about_.features = 2;
    about_.outputs = 3;
    about_.names = {"inner", "middle", "outer"};
  }
  const data::Description& describe() const override { return about_; }
  data::DatasetPtr subset(const data::IndexSet& items) const override {
    return std::make_shared<Points>(items_.part(items));
  }
  data::Preprocessing measure(const data::Preprocessing* /*base*/) const override { return {}; }
  std::unique_ptr<data::BatchSource> batches(const data::Preprocessing& /*preprocessing*/,
                                             const data::BatchOptions& options, Pool& /*pool*/) const override {
    return std::make_unique<PointBatches>(items_, options);
  }

 private:
  data::IndexSet items_;
  data::Description about_;
};

struct Trained {
  TrainConfig config;
  nn::Built built;
  TrainingResult result;
  MemorySink sink;
};

void train_on_points(Trained& out, Progress& progress, bool resume = false) {
  out.config = config_of(
      "[data]\ndataset = \"none\"\nhold_out = 0.25\n[model]\nname = \"rings\"\nfamily = \"mlp\"\nhidden = [16]\n"
      "[train]\nepochs = 12\nlearning_rate = 0.02\ncheckpoint_every = 1\n");
  Pool pool(2);
  const TrainingData data = make_training_data(out.config, std::make_shared<Points>(data::IndexSet(0, 800)), nullptr);
  const data::Description& about = data.train->describe();
  CHECK(about.count == 600);
  CHECK(data.valid->describe().count == 200);
  out.built = build_model(out.config, about, nullptr);
  settle(out.config, *about.kind, about.count);
  LoopOptions options;
  options.backend = kernels::best_backend();
  options.resume = resume;
  out.config.precision = name_of(precision_of(out.config, about, options.backend));
  out.result = run_training(out.config, out.built, data, options, out.sink, pool, progress);
}

TEST_CASE("a made-up kind of dataset, generated as it is asked for, trains and evaluates like any other") {
  NoProgress silent;
  Trained trained;
  train_on_points(trained, silent);
  CHECK(trained.config.optimizer.name == "adamw");  // the kind's
  CHECK(trained.config.batch == 64);                // for 600 examples
  CHECK(trained.result.steps == 12 * (600 / 64));
  CHECK(*trained.result.accuracy > 0.95);
  CHECK(trained.sink.metrics.contains("speed/points_per_second"));

  nn::Model model;
  model.family = trained.built.family;
  model.config = trained.built.config;
  model.graph = trained.built.graph;
  model.weights = std::make_shared<const graph::Weights>(trained.result.tensors);
  Pool pool(2);
  const Evaluation evaluation =
      evaluate(model, Points(data::IndexSet(1000, 1300)), kernels::best_backend(), pool, silent);
  CHECK(evaluation.count == 300);
  CHECK(evaluation.accuracy() > 0.95);
  CHECK(evaluation.unit == "points");
  CHECK(evaluation.labels == std::vector<std::string>{"inner", "middle", "outer"});
}

TEST_CASE("a training on generated data resumes to the same bits") {
  NoProgress silent;
  Trained whole, stopped;
  train_on_points(whole, silent);
  stopped.sink.last = whole.sink.last;  // of the last epoch's beginning
  REQUIRE(stopped.sink.last);
  train_on_points(stopped, silent, true);
  CHECK(stopped.result.from == 11 * 9);
  CHECK(nn::encode_tensors(stopped.result.tensors) == nn::encode_tensors(whole.result.tensors));
}

TEST_CASE("keys of [data] that are for another kind are refused, whatever the data is") {
  const std::string model = "[model]\nname = \"rings\"\nfamily = \"mlp\"\n[train]\nepochs = 1\n";
  for (const auto& [key, kind] : std::initializer_list<std::pair<const char*, const char*>>{
           {"tokenizer = \"chars\"", "tokenizer is for text"},
           {"target = \"x\"", "target is for rows"},
           {"missing = \"mean\"", "missing is for rows"},
           {"columns = { a = \"ignore\" }", "columns is for rows"},
           {"augment = { flip = true }", "augment is for images"}}) {
    const TrainConfig config = config_of(std::string("[data]\ndataset = \"none\"\n") + key + "\n" + model);
    CHECK_THROWS_WITH_AS((void)build_model(config, Points(data::IndexSet(0, 9)).describe(), nullptr),
                         doctest::Contains(kind), Error);
  }
}

}  // namespace
}  // namespace mlx::train::test
