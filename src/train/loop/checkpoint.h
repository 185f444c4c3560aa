// Checkpoints: all session state that outlives a step, and the training's own counters, as a manifest of
// checkpoint.json and state.safetensors (mlx-format-checkpoint(5)). The position in the data, the schedule and the
// random numbers follow from the step.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "nn/model.h"
#include "store/pack/store.h"
#include "train/config/selection.h"

namespace mlx::train {

// Sums over the epoch's training batches so far.
struct EpochSums {
  double loss = 0;
  std::int64_t batches = 0, correct = 0, counted = 0;
};
// For a line of progress: the means so far, of `counts`: what is right or wrong; and the first two metrics of a
// validation.
std::string to_text(const EpochSums& epoch, bool counts);
std::string to_text(const Metrics& valid);

// Of a worker's step in local SGD (local_sgd.h), until the workers exchange them.
struct StepRecord {
  double loss = 0, labels = 0;  // the mean over so many
  double gradient_norm = 0;     // 0 if gradients are not clipped
  std::int64_t correct = 0, counted = 0;
};
struct WorkerState {
  std::int64_t step = 0;          // steps done
  std::vector<StepRecord> round;  // the steps since the last exchange
  graph::Tensors tensors;         // those that CheckpointState::tensors has not, or has with other values
};
struct LocalSgdState {
  graph::Tensors weights, momentum;  // of the outer step; no weights: they are the session's
  std::vector<WorkerState> workers;  // the first has all its tensors in CheckpointState; empty: no local SGD
};

struct CheckpointState {
  Digest key;              // of the run that made it, if it was read
  std::int64_t step = 0;   // steps done
  graph::Tensors tensors;  // of the session
  nn::LateTensors late;    // more of them, for ranks that cannot hold all at once
  graph::Tensors best;     // of the best model so far, if that is the one to be stored
  EpochSums epoch;
  Selection selection;
  LocalSgdState local;
  std::vector<graph::Tensors> waiting;  // sums of steps that follow `step`, whose updates wait (StepSum::waiting())
};

// Stores the state durably. Uses only the store, so that another thread may do it.
Digest store_checkpoint(store::Store& store, const Digest& key, const CheckpointState& state);
// Makes the tensors that are late.
void complete(CheckpointState& state);
// With late tensors, which are read from the store as they are made. Throws kCorrupt if it cannot be read.
CheckpointState read_checkpoint(const store::Store& store, const Digest& manifest);
// The same as bytes, for which late tensors are made, for another process of this program: u64le length of the JSON,
// the JSON, the tensors.
Bytes encode_checkpoint(const CheckpointState& state);
CheckpointState decode_checkpoint(ByteView bytes, const std::string& what);

}  // namespace mlx::train
