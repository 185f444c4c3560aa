// The messages of one stage of a pipeline in a step: values to the next stage and gradients back, micro-batch by
// micro-batch (pipeline_schedule.h), and afterwards the norm of all gradients and weights that two stages have. Used by
// training_step.cpp, which computes in between.
//
// Messages are under way while the stage computes (dist/courier.h). A buffer of its own holds each until it is used or
// sent, so that nobody waits for a stage that is behind by less than its share of the pipeline.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "dist/communicator.h"
#include "dist/courier.h"
#include "graph/passes/passes.h"
#include "graph/session/session.h"
#include "train/loop/pipeline_schedule.h"

namespace mlx::train {

// The messages of one kind between two stages, one for each micro-batch in order.
class PipelineChannel {
 public:
  PipelineChannel() = default;
  // `buffers`: messages that may be here at a time.
  PipelineChannel(dist::Courier& courier, int peer, int tag, bool incoming, int buffers);

  bool used() const { return courier_ != nullptr; }
  int peer() const { return peer_; }
  // Before a step of `messages` messages of `bytes` bytes each. Begins to receive the first.
  void begin(int messages, std::size_t bytes);
  const void* at(int message) const { return buffers_[place(message)].data(); }
  void receive(int message);  // returns when it is at(message); the next is on its way then
  void send(int message, ByteView bytes);
  std::int64_t bytes_sent() const { return bytes_sent_; }

 private:
  std::size_t place(int message) const { return static_cast<std::size_t>(message) % buffers_.size(); }
  void post(int message);

  dist::Courier* courier_ = nullptr;
  int peer_ = 0, tag_ = 0, messages_ = 0;
  bool incoming_ = false;
  std::vector<Bytes> buffers_;
  std::vector<dist::Courier::Ticket> tickets_;  // by buffer
  std::int64_t bytes_sent_ = 0;
};

// What a stage did when, for a trace, on the clock of seconds_now().
struct PipelineSpan {
  std::string name;  // "forward 3": of that micro-batch; "wait for stage 2", counted from 1
  bool waits = false;
  double start = 0, seconds = 0;
};

class Pipeline {
 public:
  // `training`: of this stage, as it will run. All must outlive it. `micro_batches`: of a step, on this rank.
  // `in_background`: nobody else sends messages until end_step().
  Pipeline(const graph::TrainingGraph& training, const graph::Stage& stage, dist::Communicator& pipeline,
           int micro_batches, bool in_background);

  const std::vector<PipelineAction>& schedule() const { return schedule_; }
  // The nodes of an action, and where its micro-batch is kept.
  void choose(const PipelineAction& action, graph::RunOptions& options) const;
  // Sizes of what stages send each other, by symbol of the graph, for the next step.
  void begin_step(const std::vector<std::int64_t>& sizes);
  // Adds what an action is fed from other stages, once it is there.
  void feed(const PipelineAction& action, std::vector<graph::Feed>& feeds);
  // For RunOptions::after: sends what node `node` has completed.
  void take(const PipelineAction& action, const graph::Session& session, std::size_t node);
  void end_step();

  // The loss and the counts of the last stage, for all.
  void share_from_last(Bytes& bytes);
  // Runs the parameters' updates, with the norm over the gradients of all stages if they are clipped.
  void update(graph::Session& session, const std::vector<graph::Feed>& feeds, const graph::RunOptions& options);
  // Gives the first stage the weights that it has a copy of, if there are such.
  void share_weights(graph::Session& session);

  std::int64_t bytes_sent() const;
  double seconds() const { return seconds_; }  // of waiting for other stages
  void keep_spans(bool on) { keeps_spans_ = on; }
  // The action ran from `began` until now.
  void keep(const PipelineAction& action, double began);
  const std::vector<PipelineSpan>& spans() const { return spans_; }

  // Bytes of its buffers.
  static std::int64_t memory(const graph::TrainingGraph& training, const graph::Stage& stage,
                             const std::vector<std::int64_t>& sizes);

 private:
  struct Sent {  // what a kind of action sends, when its node has run
    PipelineAction::Kind by = PipelineAction::kForward;
    graph::ValueId value = graph::kNone;
    std::size_t node = 0;
    PipelineChannel* channel = nullptr;
  };
  void add_sent(PipelineAction::Kind by, graph::ValueId value, PipelineChannel& channel);
  // `stage`: which one this waits for; -1 for several.
  template <typename Body>
  void waiting(int stage, const Body& body);

  const graph::TrainingGraph& training_;
  const graph::Stage& stage_;
  dist::Communicator& pipeline_;
  std::vector<PipelineAction> schedule_;
  int micro_batches_;
  PipelineChannel values_in_, values_out_, gradients_in_, gradients_out_, rows_;
  std::vector<Sent> sent_;
  std::vector<std::int64_t> sizes_;
  float before_[2] = {0, 0}, total_[2] = {0, 0};  // norms, as they are fed
  std::int64_t bytes_sent_ = 0;                   // beside the channels'
  double seconds_ = 0, polled_ = 0;               // polled_: when that was
  bool keeps_spans_ = false;
  std::vector<PipelineSpan> spans_;
  dist::Courier courier_;  // last, so that it ends before the buffers
};

}  // namespace mlx::train
