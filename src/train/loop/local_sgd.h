// Local SGD with an outer Nesterov step (DiLoCo, Douillard et al. 2023). Each rank is a worker: it trains on its share
// of every batch with an optimizer of its own. After a round of steps the workers exchange by how much they have moved
// the weights, and the mean of that is the gradient of an outer step. Running statistics and averages of weights become
// the workers' means; optimizer state stays a worker's own. A round also ends where an epoch does, so that what is
// validated is one model. Used by the training loop.
//
// Within a round nobody waits for others. Whoever must stop sends one small message to all, for which they look between
// steps: then each stops where it is.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "dist/gradient_sum.h"
#include "train/config/local_sgd_config.h"
#include "train/loop/checkpoint.h"
#include "train/loop/training_step.h"

namespace mlx::train {

// In local SGD a rank trains by itself on its share of each batch.
TrainConfig config_of_rank(TrainConfig config);

class LocalSgd {
 public:
  // `ranks` must outlive it. `wire`: that of how far weights have moved; all else is f32. `steps`: of an epoch.
  LocalSgd(dist::Communicator& ranks, const LocalSgdConfig& config, dist::Wire wire, std::int64_t steps);

  // Gives each worker its state of the first one's; afterwards `state` is what training starts from on this worker.
  // Throws kConflict if it has other workers.
  void share(CheckpointState& state);
  // After training.start(). Continues the round that share() found begun.
  void start(TrainingStep& training);

  // A step is done, so many in all. `counts`: whether its predictions are right or wrong.
  void add(std::int64_t step, const StepOutcome& outcome, bool counts);
  bool round_is_done() const { return step_ == round_end(); }
  bool is_between_rounds() const { return round_.empty(); }
  std::int64_t round_begin() const { return begin_; }
  // Whether another worker stops before the end of its round. Costs nothing; looks a few times a second.
  bool others_stop();

  // What workers tell each other at the end of their round, or where they stop.
  struct Word {
    enum Kind : std::int32_t { kArrived, kStops, kDiverged } kind = kArrived;
    std::int32_t checkpoint = 0;   // of the first worker: it wants one after this round
    std::array<char, 248> what{};  // of one that diverged
  };
  // Waits for the words of all workers. The answer is the same on all: kDiverged of any, else kStops of any.
  Word meet(const Word& own);
  // The same for a worker whose numbers are not finite. Returns what the first such worker says, which it names.
  std::string meet_diverged(const std::string& what);
  // After all have arrived: the outer step. On the first worker returns what all workers together did in each step of
  // the round; on others nothing.
  std::vector<StepOutcome> exchange(TrainingStep& training, Pool& pool);

  // All workers together. Completes the first worker's state with all others'. `between_rounds`: all of them are.
  void gather(CheckpointState& state, bool between_rounds);
  // The first worker's answer.
  bool first_says(bool own);
  // Of what all workers have the same between rounds.
  Digest common_digest(TrainingStep& training) const;
  dist::GradientSum::Cost cost() const;
  // When workers exchanged, and waited for each other, while that is kept; for a trace.
  void keep_spans(bool on);
  std::vector<dist::GradientSum::Span> spans() const;

  // The bytes that it takes beside the training's own, and those that it adds to a checkpoint on the first worker.
  struct Memory {
    std::int64_t held = 0, checkpoint = 0;
  };
  static Memory memory(const graph::Graph& training, const graph::Graph& forward, const LocalSgdConfig& config,
                       dist::Wire wire);

 private:
  struct Array {  // a value that is exchanged
    graph::ValueId value = graph::kNone;
    std::string name;
    std::size_t count = 0;                // elements
    bool weight = false;                  // takes part in the outer step; others become their mean
    std::vector<float> before, momentum;  // of a weight, at the last exchange
  };
  static std::vector<Array> arrays_of(const graph::Graph& training, const graph::Graph& forward);
  static std::span<const float> floats_of(TrainingStep& training, const Array& array);
  std::int64_t round_end() const;
  bool is_exchanged(const std::string& name) const;
  void begin_round();
  void take_outer_step(TrainingStep& training, std::size_t array);
  graph::Tensors outer(const graph::Tensors& like, std::vector<float> Array::*part) const;
  std::vector<StepOutcome> gather_outcomes();

  dist::Communicator& ranks_;
  LocalSgdConfig config_;
  dist::Wire wire_;
  std::int64_t steps_;
  std::int64_t begin_ = 0, step_ = 0;  // steps done at the last exchange, and now
  std::vector<StepRecord> round_;
  std::vector<Array> arrays_;
  graph::Tensors weights_, momentum_;  // that share() got for start()
  std::unique_ptr<dist::GradientSum> sum_;
  // The words of a round.
  bool listens_ = false;
  double looked_ = 0, waited_ = 0;
  bool keeps_spans_ = false;
  std::vector<dist::GradientSum::Span> met_;
  std::vector<Word> words_;
  std::vector<dist::Communicator::Transfer> hearing_;
};

}  // namespace mlx::train
