// The thread touches the store only; operations and the database are the calling thread's.
#include "train/checkpointer.h"

#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "store/crypto/keys.h"
#include "train/run_scope.h"

namespace mlx::train {

Checkpointer::Checkpointer(registry::Repository& repository, const std::string& run, const Digest& key,
                           const CheckpointInterval& interval, Progress& progress)
    : repository_(repository), run_(run), key_(key), interval_(interval), progress_(progress), last_(seconds_now()) {}

Checkpointer::~Checkpointer() = default;

bool Checkpointer::due(std::int64_t step, std::int64_t steps_per_epoch) const {
  return is_due(interval_, step, steps_per_epoch, seconds_now() - last_);
}

void Checkpointer::save(CheckpointState state, bool best) {
  finish();
  last_ = seconds_now();
  kept_ = false;
  pending_ = std::make_unique<Pending>();
  pending_->state = std::move(state);
  pending_->best = best || best_owed_;
  store::Store& store = repository_.store();
  store.use_domain(store::kMainDomain);
  thread_.post([pending = pending_.get(), &store, key = key_] {
    // Whatever is thrown: it is over, and wait() hands it on.
    struct AtEnd {
      std::atomic<bool>& flag;
      ~AtEnd() { flag = true; }
    } const at_end{pending->stored};
    pending->manifest = store_checkpoint(store, key, pending->state);
  });
}

void Checkpointer::collect() {
  if (pending_ && pending_->stored) record();
}

bool Checkpointer::finish() {
  if (pending_) record();
  return kept_;
}

void Checkpointer::record() {
  const std::unique_ptr<Pending> pending = std::move(pending_);
  best_owed_ = pending->best;
  try {
    thread_.wait();
    registry::Checkpoint checkpoint;
    checkpoint.run = run_;
    checkpoint.step = pending->state.step;
    checkpoint.manifest = pending->manifest;
    checkpoint.best = pending->best;
    record_checkpoint(repository_, checkpoint);
    kept_ = true;
    best_owed_ = false;
  } catch (const Error& error) {
    if (error.kind == ErrorKind::kInterrupted) return;  // whoever stops for it makes another
    require_repository(repository_);
    if (error.kind != ErrorKind::kIo) throw;
    progress_.warn(fmt::format("no checkpoint at step {}: {}; training goes on", pending->state.step, error.message));
  }
}

}  // namespace mlx::train
