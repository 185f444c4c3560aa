// The thread uses the store only; operations and the database are used by the calling thread.
#include "train/repository_sink.h"

#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "store/crypto/keys.h"
#include "work/work.h"

namespace mlx::train {
namespace {

constexpr double kFlushInterval = 1.0;  // seconds

}  // namespace

RepositorySink::RepositorySink(registry::Repository& repository, std::string run, const Digest& key, bool resumes,
                               Progress& progress)
    : repository_(repository),
      run_(std::move(run)),
      key_(key),
      resumes_(resumes),
      progress_(progress),
      flushed_(seconds_now()) {}

RepositorySink::~RepositorySink() = default;

void RepositorySink::begin(std::int64_t step) {
  if (resumes_) registry::resume_run(repository_, run_, step);
}

void RepositorySink::log_metric(std::int64_t step, std::string name, double value) {
  points_.push_back({step, std::move(name), value, unix_micros()});
}

void RepositorySink::end_step() {
  if (seconds_now() - flushed_ > kFlushInterval) flush_metrics();
  if (pending_ && pending_->stored) record_checkpoint();
}

void RepositorySink::end() {
  flush_metrics();
  wait_for_checkpoint();
}

void RepositorySink::flush_metrics() {
  flushed_ = seconds_now();
  work::require_repository(repository_);
  if (points_.empty()) return;
  try {
    registry::log_metrics(repository_, run_, points_);
  } catch (const Error& error) {
    work::require_repository(repository_);
    if (error.kind != ErrorKind::kIo) throw;
    progress_.warn(fmt::format("metrics up to step {} are not recorded: {}", points_.back().step, error.message));
  }
  points_.clear();
}

// Writes metrics first, so that a resumed run has all of them up to its checkpoint.
void RepositorySink::save_checkpoint(CheckpointState state, bool best) {
  flush_metrics();
  wait_for_checkpoint();
  kept_ = false;
  pending_ = std::make_unique<Pending>();
  pending_->state = std::move(state);
  pending_->best = best || best_owed_;
  const bool late = !pending_->state.late.shapes.empty();
  store::Store& store = repository_.store();
  store.use_domain(store::kMainDomain);
  thread_.post([pending = pending_.get(), &store, key = key_] {
    // Set even if something is thrown; wait() rethrows it.
    struct AtEnd {
      std::atomic<bool>& flag;
      ~AtEnd() { flag = true; }
    } const at_end{pending->stored};
    pending->manifest = store_checkpoint(store, key, pending->state);
  });
  if (late) wait_for_checkpoint();
}

bool RepositorySink::wait_for_checkpoint() {
  if (pending_) record_checkpoint();
  return kept_;
}

void RepositorySink::record_checkpoint() {
  const std::unique_ptr<Pending> pending = std::move(pending_);
  best_owed_ = pending->best;
  try {
    thread_.wait();
    registry::Checkpoint checkpoint;
    checkpoint.run = run_;
    checkpoint.step = pending->state.step;
    checkpoint.manifest = pending->manifest;
    checkpoint.best = pending->best;
    registry::record_checkpoint(repository_, checkpoint);
    kept_ = true;
    best_owed_ = false;
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kInterrupted) return;  // the code that stops for it makes another one
    work::require_repository(repository_);
    if (error.kind != ErrorKind::kIo) throw;
    progress_.warn(fmt::format("no checkpoint at step {}: {}; training continues", pending->state.step, error.message));
  }
}

std::optional<CheckpointState> RepositorySink::last_checkpoint() {
  return load_checkpoint(repository_, run_, key_);
}

std::optional<CheckpointState> load_checkpoint(registry::Repository& repository, const std::string& run,
                                               const Digest& key) {
  const std::vector<registry::Checkpoint> all = registry::checkpoints(repository, run);
  if (all.empty()) return std::nullopt;
  CheckpointState state = read_checkpoint(repository.store(), all.back().manifest);
  if (state.key == key) return state;
  throw Error(
      ErrorKind::kConflict,
      fmt::format("checkpoint {} was made with another config, dataset or version of mlx", all.back().manifest.brief()),
      "start a new run without --resume");
}

}  // namespace mlx::train
