// What rank 0 tells the others of a training: what it is, where it starts, and how the model is on the validation
// split. Does nothing for a rank alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "dist/communicator.h"
#include "graph/passes/partition.h"
#include "train/config/config.h"
#include "train/config/selection.h"
#include "train/loop/checkpoint.h"

namespace mlx::train {

struct SharedWork {
  std::string dataset;    // its digest; "" if there is nothing to train
  std::string base;       // the digest of the model that training starts from; "" for none
  std::string key;        // of all that ranks must have in common
  ConfigSource config{};  // as rank 0 has read it
  std::string precision;  // that it chose
  std::string device;     // the word of the backend's kind of device
  bool portable = false;
  std::int64_t memory = 0;        // bytes that each rank may take; 0: unlimited
  std::int64_t verify_every = 0;  // LoopOptions::verify_every
  bool records_only = false;      // rank 0 does not train (remote_sink.h)
  bool profile = false;           // all ranks do
};
void share_work(dist::Communicator& ranks, SharedWork& work);

// Gives all ranks rank 0's state.
void share_state(dist::Communicator& ranks, CheckpointState& state);

// By which ranks compare their state: of what all with this stage of the model have, and of what those with this part
// of it have.
struct StateDigests {
  Digest of_all, of_part;
};
StateDigests digests_of(const graph::Tensors& state, const graph::Partition& partition);
// `part`: which one of `partition` this rank has. Throws kCorrupt, naming the rank that has other bits than its
// replicas, on rank 0, and kInterrupted on the others.
void check_replicas(dist::Communicator& ranks, const StateDigests& own, const graph::Partition& partition, int part,
                    std::int64_t step);

// If a rank is refused what it needs, all ranks throw: rank 0 the error of the first such rank, by name, the others
// kInterrupted.
void share_refusal(dist::Communicator& ranks, const std::optional<Error>& own);

struct Validation {
  Metrics metrics{};
  bool interrupted = false;  // no metrics then
};
void share_validation(dist::Communicator& ranks, Validation& made);

}  // namespace mlx::train
