// Forecasts a training's peak memory before its first step: the session plans one arena, and everything else is
// counted. If that is more than allowed, parts of the forward pass are recomputed in backward
// (graph/session/recompute.h), which changes no bit of the result. Used by the training loop.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "dist/tree_sum.h"
#include "train/loop/training_data.h"
#include "train/loop/training_step.h"

namespace mlx::train {

// In bytes, except `recomputed`.
struct MemoryForecast {
  // As in --device: everything is that device's memory, and checkpoints and the program take none of it. Empty: the
  // host.
  std::string device;
  std::int64_t process = 0;  // the program and the data that it has read
  std::int64_t weights = 0;  // parameters, optimizer state, statistics, sums of gradients, and packed weights
  std::int64_t arena = 0;    // activations and workspaces
  // Inputs and labels, and their order, and what stages of a pipeline send each other; on a device, inputs and labels
  // of two micro-batches.
  std::int64_t batches = 0;
  std::int64_t frames = 0;      // of encrypted messages to other ranks
  std::int64_t validation = 0;  // in addition, at the end of an epoch
  std::int64_t checkpoint = 0;  // in addition, while one is stored
  std::int64_t peak = 0;
  std::int64_t recomputed = 0;  // nodes of the forward pass that run twice
};

// The parts of a training's configuration that its memory depends on.
struct TrainingSize {
  std::int64_t steps_per_epoch = 0, steps = 0;
  bool resumed = false;
  std::int64_t allowed = 0;  // 0: as much as it needs
  int ranks = 1;             // that share a batch, of which this is one
  bool decides = true;       // it evaluates the model and makes its checkpoints
  bool encrypted = false;    // it encrypts what it sends
};

// Call before `training` has started. Throws kUsage, saying what is needed and what would help, if even the least
// possible need is not allowed.
MemoryForecast plan_memory(TrainingStep& training, const nn::Built& built, const TrainConfig& config,
                           const TrainingData& data, const TrainingSize& size, kernels::Backend backend);

// What each of so many ranks takes at least, without its data, and sends: before any is read, for a host that is to
// have ranks. Of a model in stages, for each of them.
struct StageMemory {
  graph::StageLayers layers;
  int micro_batches = 1;  // whose activations it keeps at a time
  MemoryForecast memory;
  dist::Traffic traffic;  // of gradients and statistics, in a step; none of local SGD
};
std::vector<StageMemory> least_memory(const nn::Built& built, const TrainConfig& config, const data::Description& data,
                                      int ranks, bool encrypted, kernels::Backend backend);

// Of the host's memory.
std::int64_t host_memory(const MemoryForecast& forecast);
// What the forecast is about, as it was: bytes.
std::int64_t held_at_peak(kernels::Backend backend);

std::string to_text(const MemoryForecast& forecast);  // a line for people
Json to_json(const MemoryForecast& forecast);

}  // namespace mlx::train
