// Where the time of a training goes: by operation, relative to what the machine can do, and as a trace of some steps. A
// Profiler is passed to a training that should be profiled; it changes neither bits nor keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/parallel.h"
#include "dist/communicator.h"
#include "dist/gradient_sum.h"
#include "graph/session/machine_peak.h"
#include "graph/session/session.h"
#include "train/loop/pipeline.h"

namespace mlx::train {

struct TraceEvent {
  std::string name,
      category;  // "conv1.backward_data", "conv2d_backward_data"; "step 12", "step"; "bucket 2", "exchange"
  double start = 0, seconds = 0;  // on the clock of rank 0's seconds_now()
  bool beside = false;            // by the thread that exchanges gradients, while operations run
};

// One of several ranks. All but the trace is of profiled steps.
struct RankProfile {
  std::string name;  // "rank 1 on b"
  std::int64_t steps = 0, bytes_sent = 0;
  double seconds = 0, batch_seconds = 0, kernel_seconds = 0;
  double waiting = 0;     // for other ranks, of `seconds`
  double exchanging = 0;  // gradients; most of it while operations run
  std::vector<TraceEvent> trace;
};

struct Profile {
  std::optional<graph::MachinePeak> peak;   // none if it could not be measured
  std::string no_peak;                      // why not
  std::int64_t steps = 0;                   // profiled steps: all but the first, which plans and warms caches
  double seconds = 0;                       // of these, from the batch to recording; without validation and checkpoints
  double batch_seconds = 0;                 // of that, waiting for the batch
  std::vector<graph::NodeTime> operations;  // the longest first
  std::vector<TraceEvent> trace;            // of the first kTracedSteps of these
  double waiting = 0;                       // of `seconds`, for other ranks
  std::vector<RankProfile> ranks;  // all of them, this one first; empty for one rank, and on others than rank 0
  double kernel_seconds() const;
};

inline constexpr std::int64_t kTracedSteps = 16;

class Profiler {
 public:
  Profiler(kernels::Backend backend, Pool& pool) : backend_(backend), pool_(pool) {}
  // Before the first step. `ranks` must outlive the last call of finish(). All ranks call it, if rank 0 does.
  void begin(dist::Communicator& ranks);
  // The training loop calls these, in this order, for every step; `step` counts from 1, `cost` is that of all steps.
  void begin_step();
  void batch_made();
  void end_step(graph::Session& session, std::int64_t step, const dist::GradientSum::Cost& cost);
  bool has_traced() const { return profile_.steps >= kTracedSteps; }  // more is not traced
  // `spans`: when the rank communicated; `stages`: what it did as a stage of a pipeline. Gives rank 0 the profiles of
  // all ranks, which all call it.
  void finish(const graph::Session& session, const std::vector<dist::GradientSum::Span>& spans,
              const std::vector<PipelineSpan>& stages = {});

  // Call when the training is over: the machine's peak is measured now, in memory that the training no longer holds. If
  // it cannot be measured, for example because a GPU's memory is in use, the profile only lacks the peak.
  const Profile& profile();
  // As it is, for another process; and there, where no peak can be measured that would be that of the ranks.
  const Profile& collected() const { return profile_; }
  void take(Profile profile);

 private:
  void measure_peak();
  void trace_communication(const std::vector<dist::GradientSum::Span>& spans, const std::vector<PipelineSpan>& stages);
  void gather_ranks();

  kernels::Backend backend_;
  Pool& pool_;
  dist::Communicator* ranks_ = nullptr;        // null for one rank
  double clock_offset_ = 0;                    // to rank 0's clock
  dist::GradientSum::Cost first_cost_, cost_;  // before the first profiled step, and after the last
  Profile profile_;
  bool warm_ = false;
  double step_started_ = 0, batch_made_ = 0;
};

// Without a peak.
Json to_json(const Profile& profile);
Profile profile_from(const Json& json);

// Joins operations of one kind that run with the same kernels; longest first.
std::vector<graph::NodeTime> by_operation(const Profile& profile);

// A Chrome trace (the JSON array of the Trace Event Format), which Perfetto and chrome://tracing open. Each rank is a
// process of it.
std::string chrome_trace(const Profile& profile);

}  // namespace mlx::train
