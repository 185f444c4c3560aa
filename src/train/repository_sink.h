// Writes a training's metrics and checkpoints to the repository.
//
// Metrics are collected in memory and written about once a second, in one transaction. A checkpoint is stored by a
// separate thread, and recorded with the run between two later steps. At most one is being stored; the next waits for
// it.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "base/progress.h"
#include "registry/versions/runs.h"
#include "train/loop/run_sink.h"

namespace mlx::train {

// A failed write is a warning. A repository that is gone is an error (work::require_repository).
class RepositorySink final : public RunSink {
 public:
  // Makes checkpoints with `key`, and reads only those with it. `resumes`: an earlier process began the run.
  RepositorySink(registry::Repository& repository, std::string run, const Digest& key, bool resumes,
                 Progress& progress);
  ~RepositorySink() override;  // waits for the thread, records nothing more

  void begin(std::int64_t step) override;
  void log_metric(std::int64_t step, std::string name, double value) override;
  void end_step() override;
  void save_checkpoint(CheckpointState state, bool best) override;
  bool wait_for_checkpoint() override;
  std::optional<CheckpointState> last_checkpoint() override;
  void end() override;

 private:
  struct Pending {
    CheckpointState state;
    bool best = false;
    Digest manifest;
    std::atomic<bool> stored{false};
  };
  void flush_metrics();
  void record_checkpoint();

  registry::Repository& repository_;
  std::string run_;
  Digest key_;
  bool resumes_;
  Progress& progress_;
  std::vector<registry::MetricPoint> points_;
  double flushed_;          // of seconds_now()
  bool kept_ = false;       // the last checkpoint was kept
  bool best_owed_ = false;  // a checkpoint that was the best could not be kept
  std::unique_ptr<Pending> pending_;
  Background thread_;  // last: joined before the members that it uses are destroyed
};

// The latest checkpoint of a run, which must have been made with `key` (kConflict); nullopt if it has none.
std::optional<CheckpointState> load_checkpoint(registry::Repository& repository, const std::string& run,
                                               const Digest& key);

}  // namespace mlx::train
