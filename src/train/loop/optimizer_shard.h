// The optimizer of ranks that share its state (ZeRO stage 1, Rajbhandari et al. 2020): each rank gets the summed
// gradients of its pieces of the parameters, updates these pieces, and sends the new parameters to all. It holds the
// optimizer's state of its pieces only. An element is updated as on a rank alone, and the norm of all gradients is
// added in the same order, so that a model has the same bits. Used by training_step.cpp and training_loop.cpp.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "dist/communicator.h"
#include "dist/gradient_sum.h"
#include "graph/memory.h"
#include "graph/passes/split_updates.h"
#include "graph/session/session.h"
#include "kernels/backend.h"
#include "train/loop/checkpoint.h"
#include "train/loop/step_sum.h"

namespace mlx::train {

// Whether so many ranks, each with a share of the batch, share the updates.
inline bool shares_updates(const TrainConfig& config, int sharers) {
  return config.zero > 0 && sharers > 1 && config.accumulate > 1;
}

class OptimizerShard {
 public:
  // `sums`: what the step sums, in order, of the graph that `updates` are apart from. `ranks` must outlive it.
  OptimizerShard(graph::SplitUpdates updates, const std::vector<SummedValue>& sums, dist::Communicator& ranks,
                 kernels::Backend backend);

  // Where a piece of so many elements may end, so that a norm's slice is on one rank.
  static std::vector<std::int64_t> cuts_of(std::int64_t elements, kernels::Backend backend);

  // Gives all ranks the first one's state, and each the optimizer's state of its pieces.
  void share(CheckpointState& whole);
  // After `sums` has this rank's sums: updates the session's parameters, on all ranks the same.
  void update(graph::Session& session, dist::GradientSum& sums, std::int64_t step, float rate, Pool& pool);
  double gradient_norm() const { return static_cast<double>(norm_); }  // of the last update; 0 if it is not limited
  bool finite() const { return finite_; }                              // the state of all ranks after it
  std::string first_not_finite() const;                                // of this rank's state; "" if all of it is

  // What a checkpoint holds, tensor by tensor, as ModelPart::gather_state(). All ranks call it.
  void gather_state(const graph::Session& session, const std::function<void(nn::LateTensors)>& take);
  bool said_by_first(bool own);
  std::string first_of(const std::string& own);  // the first text that is not empty, by rank

  // The optimizer's state in bytes: in all, and the most that a rank has.
  struct Size {
    std::int64_t all = 0, largest_rank = 0, largest_tensor = 0;
  };
  Size size() const;

 private:
  struct Owner {  // of a part of an array
    int rank = 0;
    std::int64_t begin = 0, end = 0;
  };
  struct Piece {  // that this rank owns
    std::size_t update = 0;
    dist::ArrayPiece at;
    kernels::Prepared kernel;
  };
  struct Norm {  // of one gradient
    std::size_t array = 0;
    kernels::Prepared kernel;
    std::vector<int> owners;  // by slice
    std::size_t squares = 0;  // the first of its sums of squares, one a slice: the kernel's workspace
  };
  bool limits_norm() const { return !updates_.norms.empty(); }
  double* squares_of(const Norm& norm) const { return static_cast<double*>(squares_.get()) + norm.squares; }
  std::vector<Owner> owners_of(std::size_t array) const;
  void hand_out(CheckpointState& state);
  void hand_out(const std::string& name, const graph::Tensor& whole);
  void receive(CheckpointState& state);
  void prepare_kernels();
  void sum_squares(dist::GradientSum& sums, Pool& pool);
  void exchange_squares();
  void limit_norm();
  void update_bucket(graph::Session& session, dist::GradientSum& sums, std::size_t bucket, std::int64_t step,
                     Pool& pool);
  void take_parameters(graph::Session& session, dist::GradientSum& sums, Pool& pool);
  void agree_on_finite();
  Bytes gathered(const std::string& name);

  graph::SplitUpdates updates_;
  dist::Communicator& ranks_;
  kernels::Backend backend_;
  dist::BucketLayout layout_;
  std::map<std::string, std::size_t> array_of_;       // by name of a gradient's sum
  std::map<std::string, std::size_t> update_of_;      // by name of a state
  std::map<std::string, std::vector<float>> states_;  // this rank's pieces; empty where it has none
  std::vector<std::vector<Piece>> pieces_;            // by bucket
  std::vector<Norm> norms_;                           // in the order of the sum
  graph::Memory squares_;                             // of all norms
  kernels::Prepared scale_;
  float rate_ = 0, factor_ = 1, norm_ = 0;
  bool finite_ = true;
};

}  // namespace mlx::train
