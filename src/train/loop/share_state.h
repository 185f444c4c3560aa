// What rank 0 tells the others of a training: what it is, where it starts, and how the model is on the validation
// split. Does nothing for a rank alone.
#pragma once

#include <cstdint>
#include <string>

#include "dist/communicator.h"
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
  bool portable = false;
  std::int64_t memory = 0;        // bytes that each rank may take; 0: unlimited
  std::int64_t verify_every = 0;  // LoopOptions::verify_every
  bool records_only = false;      // rank 0 does not train (remote_sink.h)
  bool profile = false;           // all ranks do
};
void share_work(dist::Communicator& ranks, SharedWork& work);

// Gives all ranks rank 0's state.
void share_state(dist::Communicator& ranks, CheckpointState& state);

// By which ranks compare their state.
Digest digest_of(const graph::Tensors& tensors);

struct Validation {
  Metrics metrics{};
  bool interrupted = false;  // no metrics then
};
void share_validation(dist::Communicator& ranks, Validation& made);

}  // namespace mlx::train
