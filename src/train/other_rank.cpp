// Rebuilds the training from rank 0's words, and trains.
#include "train/other_rank.h"

#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "dist/group.h"
#include "train/loop/share_state.h"
#include "train/loop/training_loop.h"
#include "train/prepared.h"
#include "train/remote_sink.h"

namespace mlx::train {
namespace {

// Rank 0 records the training.
class NoSink final : public RunSink {
 public:
  void begin(std::int64_t /*step*/) override {}
  void log_metric(std::int64_t /*step*/, std::string /*name*/, double /*value*/) override {}
  void end_step() override {}
  void save_checkpoint(CheckpointState /*state*/, bool /*best*/) override {}
  bool wait_for_checkpoint() override { return true; }
  std::optional<CheckpointState> last_checkpoint() override { return std::nullopt; }
  void end() override {}
};

TrainConfig config_of(const SharedWork& work, const OtherRank& rank) {
  TrainConfig config = parse_train_config(work.config.text, work.config.file, work.config.sets);
  set_precision(config, work.precision);
  set_numerics(config, work.portable ? "portable" : "native");
  config.reading.budget = rank.data_memory(work.memory);
  return config;
}

Prepared prepare(const store::Store& store, const SharedWork& work, const OtherRank& rank, kernels::Backend backend,
                 Progress& progress) {
  const Digest dataset = Digest::parse(work.dataset);
  if (rank.uses) rank.uses(dataset);
  std::optional<nn::Model> base;
  if (!work.base.empty()) {
    if (rank.uses) rank.uses(Digest::parse(work.base));
    base = nn::load_description(store, Digest::parse(work.base));
  }
  Prepared out = prepare(store, dataset, config_of(work, rank), base ? &*base : nullptr, backend, progress);
  if (key_of(work_of(out, dataset, backend)).text() != work.key) {
    throw Error(ErrorKind::kConflict, "this rank would not train the same model as rank 0",
                backend.can().own_memory
                    ? "give all ranks the same mlx and the same kind of GPU, driver, CUDA libraries and CPU"
                    : "give all ranks the same mlx and the same kind of CPU, or --numerics portable");
  }
  return out;
}

// Without recording or deciding anything.
void train_along(const Prepared& prepared, const Digest& dataset, LoopOptions loop, const store::Store& store,
                 Pool& pool, dist::Communicator& ranks, Progress& progress) {
  const TrainingData data = load_training_split(store, dataset, prepared.config, progress);
  loop.ranks = &ranks;
  NoSink sink;
  try {
    run_training(prepared.config, prepared.built, data, loop, sink, pool, progress);
  } catch (const Error& error) {
    // All ranks stop then, and the one that decides says why.
    if (error.kind != ErrorKind::kInterrupted && error.kind != ErrorKind::kDiverged) throw;
  }
}

}  // namespace

void take_part(const store::Store& store, Pool& pool, const OtherRank& rank, Progress& progress) {
  SharedWork work;
  share_work(rank.ranks, work);
  if (work.dataset.empty()) return;
  const kernels::Backend chosen = rank.backend(work.device);
  const kernels::Backend backend = work.portable ? kernels::portable_backend(chosen) : chosen;
  const Prepared prepared = prepare(store, work, rank, backend, progress);
  LoopOptions loop;
  loop.backend = backend;
  loop.memory = work.memory;
  loop.verify_every = work.verify_every;
  Profiler profiler(backend, pool);
  if (work.profile) loop.profiler = &profiler;
  const Digest dataset = Digest::parse(work.dataset);
  if (!work.records_only) return train_along(prepared, dataset, loop, store, pool, rank.ranks, progress);
  std::vector<int> members(static_cast<std::size_t>(rank.ranks.ranks()) - 1);
  std::iota(members.begin(), members.end(), kDecider);
  const std::unique_ptr<dist::Communicator> group = dist::group_of(rank.ranks, std::move(members));
  if (group->rank() > 0) return train_along(prepared, dataset, loop, store, pool, *group, progress);
  loop.ranks = group.get();
  report_training(rank.ranks, loop, progress.interruption(), [&](const Reported& to) {
    const TrainingData data = load_training_data(store, dataset, prepared.config, progress);
    return run_training(prepared.config, prepared.built, data, to.loop, to.sink, pool, to.progress);
  });
}

}  // namespace mlx::train
