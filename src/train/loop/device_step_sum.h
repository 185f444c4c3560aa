// StepSum on a device with its own memory: the same sums of a step's micro-batches, in the same tree, of values that
// stay in the device's memory (dist/device_sum.h). Nothing waits for the device until the step's loss is read. What the
// host counts, labels and losses, goes to other ranks by the host's messages.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "dist/device_links.h"
#include "dist/device_sum.h"
#include "graph/memory.h"
#include "graph/passes/passes.h"
#include "graph/session/session.h"
#include "train/loop/step_sum.h"

namespace mlx::train {

class DeviceStepSum {
 public:
  // Of a training graph that accumulates, for a session on this device. `ranks` must outlive it. Throws what
  // dist::join_devices does, if there are several.
  DeviceStepSum(const graph::TrainingGraph& training, std::int64_t micro_batches, dist::Communicator& ranks,
                const kernels::Device& device);

  dist::Terms terms() const { return sum_.terms(); }  // this rank's micro-batches
  // Tells all ranks how many labels each of this rank's micro-batches has.
  void begin_step(std::span<const std::int64_t> labels);
  // Where the nodes [0, end) of a micro-batch of this rank end, of which it runs one stretch after another: take()
  // follows each. In the last micro-batch of several ranks they end where a bucket is filled, whose messages then go
  // while the next stretch runs.
  const std::vector<std::size_t>& stretches(std::int64_t part) const;
  void begin_part(graph::Session& session);
  void take(graph::Session& session, std::size_t end);  // what nodes before `end` have completed
  void end_part();
  // After the last micro-batch: the session's gradients and running statistics are those of the step, for all that runs
  // from now on.
  void finish(graph::Session& session);
  // Until messages between devices are there. Throws kIo if another rank is lost.
  void wait() { sum_.wait(); }

  // Of one of this rank's micro-batches.
  struct Counters {
    double loss = 0;
    std::int64_t correct = 0, counted = 0, labels = 0, asked_to_stop = 0;
  };
  // Of the step, over all ranks. `own`: of this rank, in order; their labels are known.
  StepSum::Totals totals(std::vector<Counters> own, bool asked_to_stop);
  dist::GradientSum::Cost cost() const;

  // The bytes that it takes of a device.
  static std::int64_t memory(const graph::TrainingGraph& training, std::int64_t micro_batches, int ranks);

 private:
  template <typename T>
  std::vector<T> of_all(std::span<const T> own);
  std::int64_t count_of(std::size_t array) const { return sizes_[array].count; }

  dist::Communicator& ranks_;
  const kernels::Device& device_;
  std::vector<StepSum::Array> arrays_;
  std::vector<dist::SummedArray> sizes_;
  std::unique_ptr<dist::DeviceLinks> links_;  // null for a rank alone
  dist::DeviceSum sum_;
  std::vector<graph::Memory> before_;              // running statistics, by array; null for gradients
  std::vector<std::size_t> whole_, in_stretches_;  // ends of stretches
  std::vector<std::int64_t> labels_;               // of this rank's micro-batches
  std::int64_t micro_batches_, all_labels_ = 0, part_ = 0;
  std::size_t taken_ = 0;  // arrays of the current micro-batch
  std::int64_t host_bytes_ = 0;
  double host_seconds_ = 0;
};

}  // namespace mlx::train
