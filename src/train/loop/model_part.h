// This rank's part of a model that several ranks hold (graph/passes/partition.h, stages.h): what its session asks of
// the ranks with the other parts of its stage, and the way of tensors from whole to parts and back. Of a rank that
// holds its whole model it is the only part, and everything here is what it was given. Used by training_step.cpp and
// training_loop.cpp.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dist/all_reduce.h"
#include "dist/communicator.h"
#include "dist/rank_grid.h"
#include "graph/passes/partition.h"
#include "graph/session/collectives.h"
#include "graph/session/session.h"
#include "train/loop/checkpoint.h"

namespace mlx::train {

// Every function but the simple questions is called by all ranks of a row in the same order.
class ModelPart final : public graph::Collectives {
 public:
  // `grid` must outlive it.
  ModelPart(const dist::RankGrid& grid, graph::Partition partition);

  bool divided() const { return grid_.row().ranks() > 1; }
  const graph::Partition& partition() const { return partition_; }

  void all_reduce(std::span<float> data) override;
  void all_gather(ByteView own, std::span<std::uint8_t> all) override;

  // Gives each rank of the row its part of the state that the first has, and their columns the same. `graph`: what this
  // rank trains.
  void share(CheckpointState& whole, const graph::Graph& graph);
  // The state of all ranks of the row, whole, tensor by tensor, so that the first rank never holds all: it is handed to
  // `take` there, which makes each once in the order of names or fails, and the other ranks serve it meanwhile.
  void gather_state(const graph::Session& session, const std::function<void(nn::LateTensors)>& take);
  // The whole model of this forward graph on the first, which is the only one to need memory for it; nothing on the
  // others.
  graph::Tensors whole_model(const graph::Session& session, const graph::Graph& forward);
  // Whether it is so on any rank of the row; whether the first rank says so.
  bool any(bool own);
  bool said_by_first(bool own);
  // The first text that is not empty, by rank.
  std::string first_of(const std::string& own);

  std::int64_t bytes_sent() const { return bytes_sent_; }
  double seconds() const { return seconds_; }  // of sums and gathers in sessions

 private:
  // A tensor that some ranks of the row give to the first.
  struct Source {
    kernels::Shape shape;           // of the whole
    std::optional<graph::Cut> cut;  // if these ranks have a piece each
    std::vector<int> ranks;
  };
  using Shapes = std::map<std::string, kernels::Shape>;

  const graph::Cut* cut_of(const std::string& name) const;  // null if all parts have it
  bool has_pieces(const std::string& name) const;           // every part has one of its own
  bool gives(const std::string& name) const;                // of the ranks that have it, this is one that gives it
  Shapes given(const graph::Graph& graph, const std::function<bool(const graph::Value&)>& wanted) const;
  std::map<std::string, Source> sources(const Shapes& own);
  void hand_out(CheckpointState& state, const graph::Graph& graph);
  void receive_part(CheckpointState& state, const graph::Graph& graph);
  Bytes gathered(const Source& source, ByteView own);

  const dist::RankGrid& grid_;
  graph::Partition partition_;
  dist::AllReduce sum_;
  std::int64_t bytes_sent_ = 0;
  double seconds_ = 0;
};

}  // namespace mlx::train
