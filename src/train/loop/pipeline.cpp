// Channels to the neighbours, and from the first stage to the last; what is done after the last micro-batch goes
// through the stages one after another.
#include "train/loop/pipeline.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "dist/collectives.h"
#include "graph/op_def.h"

namespace mlx::train {
namespace {

// Of messages between two stages. The sums of gradients use others (dist/gradient_sum.h), but not between stages.
enum Tag : int { kValues, kGradients, kRows, kWeights };

constexpr int kTwo = 2;  // one message is used or made while another is under way

std::vector<std::int64_t> dims_of(const graph::Value& value, const std::vector<std::int64_t>& sizes) {
  const kernels::Shape shape = graph::concrete(value, sizes);
  return {shape.dims.begin(), shape.dims.begin() + shape.rank};
}

std::size_t node_of(const graph::Graph& graph, graph::ValueId value) {
  for (std::size_t i = graph.nodes.size(); i-- > 0;)
    if (std::ranges::find(graph.nodes[i].outputs, value) != graph.nodes[i].outputs.end()) return i;
  fail(ErrorKind::kCorrupt, "no operation computes '{}'", graph.value(value).name);
}

int buffers_of_values(const graph::TrainingGraph& training) {
  return training.slots + 1;
}

}  // namespace

PipelineChannel::PipelineChannel(dist::Courier& courier, int peer, int tag, bool incoming, int buffers)
    : courier_(&courier),
      peer_(peer),
      tag_(tag),
      incoming_(incoming),
      buffers_(static_cast<std::size_t>(buffers)),
      tickets_(static_cast<std::size_t>(buffers), 0) {}

void PipelineChannel::begin(int messages, std::size_t bytes) {
  if (!used()) return;
  messages_ = messages;
  for (Bytes& buffer : buffers_) buffer.resize(bytes);
  if (incoming_) post(0);
}

void PipelineChannel::post(int message) {
  Bytes& buffer = buffers_[place(message)];
  tickets_[place(message)] = courier_->receive(peer_, tag_, buffer.data(), buffer.size());
}

void PipelineChannel::receive(int message) {
  courier_->wait(tickets_[place(message)]);
  if (message + 1 < messages_) post(message + 1);
}

void PipelineChannel::send(int message, ByteView bytes) {
  Bytes& buffer = buffers_[place(message)];
  CHECK(bytes.size() == buffer.size());
  courier_->wait(tickets_[place(message)]);  // the one that the buffer had before
  std::memcpy(buffer.data(), bytes.data(), bytes.size());
  tickets_[place(message)] = courier_->send(peer_, tag_, buffer.data(), buffer.size());
  bytes_sent_ += static_cast<std::int64_t>(bytes.size());
}

Pipeline::Pipeline(const graph::TrainingGraph& training, const graph::Stage& stage, dist::Communicator& pipeline,
                   int micro_batches, bool in_background)
    : training_(training),
      stage_(stage),
      pipeline_(pipeline),
      schedule_(pipeline_schedule(stage.stages, stage.stage, micro_batches,
                                  training.stage.late_begin < training.update_begin)),
      micro_batches_(micro_batches),
      courier_(pipeline, in_background) {
  const graph::StageTraining& of_stage = training.stage;
  if (!stage.is_first()) {
    values_in_ = PipelineChannel(courier_, stage.stage - 1, kValues, true, buffers_of_values(training));
    gradients_out_ = PipelineChannel(courier_, stage.stage - 1, kGradients, false, kTwo);
    add_sent(PipelineAction::kBackward, of_stage.input_gradient, gradients_out_);
  }
  if (!stage.is_last()) {
    values_out_ = PipelineChannel(courier_, stage.stage + 1, kValues, false, kTwo);
    gradients_in_ = PipelineChannel(courier_, stage.stage + 1, kGradients, true, kTwo);
    add_sent(PipelineAction::kForward, of_stage.output, values_out_);
  }
  if (of_stage.rows_gradient == graph::kNone) return;
  rows_ = PipelineChannel(courier_, stage.is_first() ? stage.stages - 1 : 0, kRows, stage.is_last(), kTwo);
  if (stage.is_first()) add_sent(PipelineAction::kBackward, of_stage.rows_gradient, rows_);
}

void Pipeline::add_sent(PipelineAction::Kind by, graph::ValueId value, PipelineChannel& channel) {
  const std::size_t node = node_of(training_.graph, value);
  CHECK(!graph::op_def(training_.graph.nodes[node].op).view);
  sent_.push_back({by, value, node, &channel});
}

template <typename Body>
void Pipeline::waiting(int stage, const Body& body) {
  const double began = seconds_now();
  body();
  const double took = seconds_now() - began;
  seconds_ += took;
  if (keeps_spans_)
    spans_.push_back(
        {stage < 0 ? "wait for all stages" : fmt::format("wait for stage {}", stage + 1), true, began, took});
}

void Pipeline::keep(const PipelineAction& action, double began) {
  if (!keeps_spans_) return;
  const char* const what = action.kind == PipelineAction::kForward    ? "forward"
                           : action.kind == PipelineAction::kBackward ? "backward"
                                                                      : "backward of the first rows";
  spans_.push_back({fmt::format("{} {}", what, action.micro_batch), false, began, seconds_now() - began});
}

void Pipeline::choose(const PipelineAction& action, graph::RunOptions& options) const {
  const std::size_t late = training_.stage.late_begin;
  options.slot = training_.slots > 1 ? action.micro_batch % training_.slots : 0;
  switch (action.kind) {
    case PipelineAction::kForward:
      options.first = 0, options.last = training_.loss_end;
      break;
    case PipelineAction::kBackward:
      options.first = training_.loss_end, options.last = late;
      break;
    case PipelineAction::kLate:
      options.first = late, options.last = training_.update_begin;
      break;
  }
  options.guard = {};  // all stages do the whole step, whatever its loss
}

void Pipeline::begin_step(const std::vector<std::int64_t>& sizes) {
  sizes_ = sizes;
  const graph::Graph& graph = training_.graph;
  const auto bytes = [&](graph::ValueId id) {
    return id == graph::kNone ? 0 : graph::concrete(graph.value(id), sizes).bytes();
  };
  const graph::StageTraining& of_stage = training_.stage;
  values_in_.begin(micro_batches_, bytes(of_stage.input));
  gradients_out_.begin(micro_batches_, bytes(of_stage.input));
  values_out_.begin(micro_batches_, bytes(of_stage.output));
  gradients_in_.begin(micro_batches_, bytes(of_stage.output));
  rows_.begin(micro_batches_, bytes(of_stage.rows_gradient));
}

// Every input is fed in every run: those that a run does not read, with what is at hand.
void Pipeline::feed(const PipelineAction& action, std::vector<graph::Feed>& feeds) {
  const graph::Graph& graph = training_.graph;
  const graph::StageTraining& of_stage = training_.stage;
  const int of = action.micro_batch;
  if (action.kind == PipelineAction::kForward && values_in_.used())
    waiting(stage_.stage - 1, [&] { values_in_.receive(of); });
  if (action.kind == PipelineAction::kBackward && gradients_in_.used())
    waiting(stage_.stage + 1, [&] { gradients_in_.receive(of); });
  if (action.kind == PipelineAction::kLate) waiting(0, [&] { rows_.receive(of); });
  const auto add = [&](graph::ValueId id, const void* data) {
    if (id != graph::kNone) feeds.push_back({id, data, dims_of(graph.value(id), sizes_)});
  };
  if (values_in_.used()) add(of_stage.input, values_in_.at(of));
  if (gradients_in_.used()) add(of_stage.output_gradient, gradients_in_.at(of));
  if (rows_.used() && stage_.is_last()) add(of_stage.rows_gradient, rows_.at(of));
  add(of_stage.before.whole, &before_[0]);
  add(of_stage.before.part, &before_[1]);
  add(of_stage.total.whole, &total_[0]);
  add(of_stage.total.part, &total_[1]);
}

void Pipeline::take(const PipelineAction& action, const graph::Session& session, std::size_t node) {
  for (const Sent& each : sent_) {
    if (each.by != action.kind || each.node != node) continue;
    waiting(each.channel->peer(), [&] { each.channel->send(action.micro_batch, session.value(each.value)); });
  }
  constexpr double kOften = 1e-3;  // seconds
  const double now = seconds_now();
  if (now - polled_ < kOften) return;
  polled_ = now;
  courier_.poll();
}

void Pipeline::end_step() {
  waiting(-1, [&] { courier_.idle(); });
}

void Pipeline::share_from_last(Bytes& bytes) {
  waiting(stage_.stages - 1, [&] { dist::broadcast(pipeline_, stage_.stages - 1, bytes); });
}

void Pipeline::update(graph::Session& session, const std::vector<graph::Feed>& feeds,
                      const graph::RunOptions& options) {
  const graph::StageTraining& of_stage = training_.stage;
  graph::RunOptions run = options;
  if (of_stage.total.whole != graph::kNone) {
    before_[0] = before_[1] = 0;
    const std::vector<int>& stages = stage_.runs;
    for (std::size_t i = 0; i < stages.size(); ++i) {
      if (stages[i] != stage_.stage) continue;
      if (i > 0) {
        waiting(stages[i - 1], [&] {
          const Bytes norms = dist::receive_bytes(pipeline_, stages[i - 1]);
          CHECK(norms.size() == sizeof before_);
          std::memcpy(before_, norms.data(), sizeof before_);
        });
      }
      const auto own = std::ranges::find(of_stage.runs, static_cast<int>(i), &graph::StageTraining::Run::run);
      CHECK(own != of_stage.runs.end());
      run.first = training_.update_begin + own->begin;
      run.last = training_.update_begin + own->end;
      session.run(feeds, run);
      std::memcpy(&total_[0], session.value(own->norms.whole).data(), sizeof(float));
      if (own->norms.part != graph::kNone)
        std::memcpy(&total_[1], session.value(own->norms.part).data(), sizeof(float));
      if (i + 1 < stages.size())
        dist::send_bytes(pipeline_, stages[i + 1], {reinterpret_cast<const std::uint8_t*>(total_), sizeof total_});
    }
    Bytes norms(reinterpret_cast<const std::uint8_t*>(total_),
                reinterpret_cast<const std::uint8_t*>(total_) + sizeof total_);
    waiting(stages.back(), [&] { dist::broadcast(pipeline_, stages.back(), norms); });
    std::memcpy(total_, norms.data(), sizeof total_);
  }
  run.first = training_.update_begin + of_stage.apply_begin;
  run.last = SIZE_MAX;
  session.run(feeds, run);
}

void Pipeline::share_weights(graph::Session& session) {
  if (!rows_.used()) return;
  waiting(stage_.is_last() ? 0 : stage_.stages - 1, [&] {
    dist::Communicator::Transfer transfer;
    if (stage_.is_last()) {
      const void* const own = session.state(stage_.shared);
      const std::size_t bytes = session.writable_state(stage_.shared).size();
      transfer = pipeline_.send(0, kWeights, own, bytes);
      bytes_sent_ += static_cast<std::int64_t>(bytes);
    } else {
      const std::span<std::uint8_t> copy = session.writable_state(stage_.shared);
      transfer = pipeline_.receive(stage_.stages - 1, kWeights, copy.data(), copy.size());
    }
    pipeline_.wait({&transfer, 1});
  });
}

std::int64_t Pipeline::bytes_sent() const {
  std::int64_t bytes = bytes_sent_;
  for (const PipelineChannel* channel : {&values_out_, &gradients_out_, &rows_}) bytes += channel->bytes_sent();
  return bytes;
}

std::int64_t Pipeline::memory(const graph::TrainingGraph& training, const graph::Stage& stage,
                              const std::vector<std::int64_t>& sizes) {
  const auto bytes = [&](graph::ValueId id) {
    return id == graph::kNone ? std::int64_t{0}
                              : static_cast<std::int64_t>(graph::concrete(training.graph.value(id), sizes).bytes());
  };
  const graph::StageTraining& of_stage = training.stage;
  std::int64_t out = (buffers_of_values(training) + kTwo) * bytes(of_stage.input) + 2 * kTwo * bytes(of_stage.output);
  if (stage.is_first() || stage.is_last()) out += kTwo * bytes(of_stage.rows_gradient);
  return out;
}

}  // namespace mlx::train
