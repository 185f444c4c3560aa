// Where the time of a training goes: by operation, relative to what the machine can do, and as a trace of some steps. A
// Profiler is passed to a training that should be profiled; it changes neither bits nor keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "graph/session/machine_peak.h"
#include "graph/session/session.h"

namespace mlx::train {

struct TraceEvent {
  std::string name, category;     // "conv1.backward_data", "conv2d_backward_data"; "step 12", "step"
  double start = 0, seconds = 0;  // on the clock of seconds_now()
};

struct Profile {
  std::optional<graph::MachinePeak> peak;   // none if it could not be measured
  std::string no_peak;                      // why not
  std::int64_t steps = 0;                   // profiled steps: all but the first, which plans and warms caches
  double seconds = 0;                       // of these, from the batch to recording; without validation and checkpoints
  double batch_seconds = 0;                 // of that, waiting for the batch
  std::vector<graph::NodeTime> operations;  // the longest first
  std::vector<TraceEvent> trace;            // of the first kTracedSteps of these
  double kernel_seconds() const;
};

inline constexpr std::int64_t kTracedSteps = 16;

class Profiler {
 public:
  Profiler(kernels::Backend backend, Pool& pool) : backend_(backend), pool_(pool) {}
  // The training loop calls these, in this order, for every step; `step` counts from 1.
  void begin_step();
  void batch_made();
  void end_step(graph::Session& session, std::int64_t step);
  void finish(const graph::Session& session);

  // Call when the training is over: the machine's peak is measured now, in memory that the training no longer holds. If
  // it cannot be measured, for example because a GPU's memory is in use, the profile only lacks the peak.
  const Profile& profile();

 private:
  void measure_peak();

  kernels::Backend backend_;
  Pool& pool_;
  Profile profile_;
  bool warm_ = false;
  double step_started_ = 0, batch_made_ = 0;
};

// Joins operations of one kind that run with the same kernels; longest first.
std::vector<graph::NodeTime> by_operation(const Profile& profile);

// A Chrome trace (the JSON array of the Trace Event Format), which Perfetto and chrome://tracing open.
std::string chrome_trace(const Profile& profile);

}  // namespace mlx::train
