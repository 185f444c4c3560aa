// bench_synthetic: mlx's side of data_rate.py. Trains as `mlx train` does, but every step gets the first batch of the
// data again, which costs nothing to make.
//
// usage: bench_synthetic PROJECT CONFIG    prints images, rows or tokens a second
#include <fmt/format.h>

#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "registry/sync/open_repository.h"
#include "store/disk.h"
#include "train/build_model.h"
#include "train/loop/training_loop.h"
#include "work/inputs.h"

namespace {

using namespace mlx;

// The first batch of `real`, as often as it has batches.
class Repeated final : public data::BatchSource {
 public:
  explicit Repeated(std::unique_ptr<data::BatchSource> real) : real_(std::move(real)) {}

  std::int64_t batches() const override { return real_->batches(); }
  std::int64_t examples() const override { return real_->examples(); }
  void start(std::uint64_t /*epoch*/, std::int64_t first) override {
    if (batch_ == nullptr) {
      real_->start(0);
      batch_ = real_->next();
    }
    left_ = batches() - first;
  }
  const data::BatchView* next() override { return left_-- > 0 ? batch_ : nullptr; }

 private:
  std::unique_ptr<data::BatchSource> real_;
  const data::BatchView* batch_ = nullptr;
  std::int64_t left_ = 0;
};

class Synthetic final : public data::Dataset {
 public:
  explicit Synthetic(data::DatasetPtr real) : real_(std::move(real)) {}

  const data::Description& describe() const override { return real_->describe(); }
  data::DatasetPtr subset(const data::IndexSet& items) const override {
    return std::make_shared<Synthetic>(real_->subset(items));
  }
  data::Preprocessing measure(const data::Preprocessing* base) const override { return real_->measure(base); }
  std::unique_ptr<data::BatchSource> batches(const data::Preprocessing& preprocessing,
                                             const data::BatchOptions& options, Pool& pool) const override {
    return std::make_unique<Repeated>(real_->batches(preprocessing, options, pool));
  }

 private:
  data::DatasetPtr real_;
};

class Nowhere final : public train::RunSink {
 public:
  void begin(std::int64_t /*step*/) override {}
  void log_metric(std::int64_t /*step*/, std::string /*name*/, double /*value*/) override {}
  void end_step() override {}
  void save_checkpoint(train::CheckpointState /*state*/, bool /*best*/) override {}
  bool wait_for_checkpoint() override { return true; }
  std::optional<train::CheckpointState> last_checkpoint() override { return std::nullopt; }
  void end() override {}
};

double rate(const std::string& project, const std::string& file) {
  const std::unique_ptr<store::Disk> disk = store::real_disk();
  Pool pool(cores());
  registry::Repository repository = registry::open_repository(project, *disk, pool);
  NoProgress silent;
  train::TrainConfig config = train::read_train_config(file);
  const Digest dataset = work::resolve_dataset(repository, config.dataset, silent).digest;
  const data::Description about = data::describe(repository.store(), dataset, config.train_split, config.reading);
  const nn::Built built = train::build_model(config, about, nullptr);
  train::settle(config, *about.kind, train::kEnoughExamples);
  train::LoopOptions options;
  config.precision = train::name_of(train::precision_of(config, about, options.backend));
  train::TrainingData data = train::load_training_data(repository.store(), dataset, config, silent);
  data.train = std::make_shared<Synthetic>(data.train);
  Nowhere sink;
  return train::run_training(config, built, data, options, sink, pool, silent).per_second;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    fmt::print("{}\n", rate(argv[1], argv[2]));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
