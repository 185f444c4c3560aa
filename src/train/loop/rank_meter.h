// What a rank's steps have taken, and into what their time went. The training loop keeps it; the launcher sees it
// through the pulse (dist/pulse.h), and rank 0 records those of all ranks with the run.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "dist/communicator.h"
#include "dist/gradient_sum.h"

namespace mlx::train {

// Of one rank, since its process began.
struct RankFigures {
  std::string name;  // "rank 2 on b"
  std::int64_t threads = 0, steps = 0, units = 0, bytes_sent = 0;
  std::int64_t micro_batches = 0;  // that it now has of a batch
  // Of steps; of these, waiting for batches and for other ranks; in exchanges, most of which run beside the backward
  // pass; and of all threads on cores.
  double seconds = 0, reading = 0, waiting = 0, exchanging = 0, cpu = 0;
};

Json to_json(const RankFigures& rank);
RankFigures figures_from(const Json& json);  // kCorrupt naming the key

class RankMeter {
 public:
  // `unit`: of a kind of data. `ranks` must outlive it.
  RankMeter(const dist::Communicator& ranks, const char* unit, int threads);
  // For every step, in this order.
  void begin_step();
  void batch_made();
  void end_step(std::int64_t units, const dist::GradientSum::Cost& cost);
  void set_micro_batches(std::int64_t count) { figures_.micro_batches = count; }
  RankFigures figures() const;

 private:
  const dist::Communicator& ranks_;
  RankFigures figures_;
  double step_began_ = 0, batch_made_ = 0;
};

// Rank 0 gets those of all, the others nothing. All ranks call it.
std::vector<RankFigures> gather(dist::Communicator& ranks, const RankFigures& own);

// The number in a rank's name. Ranks of a group (dist/group.h) are named by those of all, as their logs are.
std::int64_t number_of(const RankFigures& rank);

// What the ranks did from `before` (empty: the beginning of their processes) to `now`, as metrics of a run:
//   ranks/slowest              the rank that needed most time of its own for its steps
//   ranks/imbalance            that time, relative to the median of the others'
//   ranks/communication_share  of the time of all ranks, that in which they waited for others
//   ranks/bytes_per_second     sent by all ranks
//   ranks/N/computing, ranks/N/reading, ranks/N/waiting   seconds of rank N, of the first kRanksInMetrics
//   ranks/N/micro_batches      that it had of a batch at the end
inline constexpr std::size_t kRanksInMetrics = 64;
std::vector<std::pair<std::string, double>> rank_metrics(const std::vector<RankFigures>& before,
                                                         const std::vector<RankFigures>& now);

// For the summary of a run, under "communication": the figures of each host and rank, of the first kRanksInSummary.
inline constexpr std::size_t kRanksInSummary = 256;
void add_ranks(Json& communication, const std::vector<RankFigures>& ranks, const std::string& unit);

}  // namespace mlx::train
