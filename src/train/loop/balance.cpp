#include "train/loop/balance.h"

#include <cstring>

#include "base/error.h"
#include "dist/collectives.h"

namespace mlx::train {
namespace {

double own_seconds(const RankMeter& meter) {
  const RankFigures figures = meter.figures();
  return std::max(0.0, figures.seconds - figures.waiting);
}

std::vector<double> of_all_ranks(dist::Communicator& ranks, double own) {
  std::vector<double> out;
  Bytes bytes(sizeof own);
  std::memcpy(bytes.data(), &own, sizeof own);
  for (const Bytes& each : dist::all_gather(ranks, bytes)) {
    CHECK(each.size() == sizeof own);
    std::memcpy(&out.emplace_back(), each.data(), sizeof own);
  }
  return out;
}

}  // namespace

void Balance::share(data::BatchOptions& options) const {
  options.rank = own().begin;
  options.shares = own().size();
  options.ranks = shares_.back().end;
}

void Balance::begin_to_measure(const RankMeter& meter) {
  steps_ = 0;
  own_before_ = own_seconds(meter);
}

bool Balance::change_after(bool ends_epoch, const RankMeter& meter) {
  if (steps_ < 0) return begin_to_measure(meter), false;
  ++steps_;
  if (steps_ < kSteps || (measured_ && !ends_epoch)) return false;
  measured_ = true;
  const double own_term = (own_seconds(meter) - own_before_) / (static_cast<double>(steps_) * own().size());
  begin_to_measure(meter);
  const std::vector<double> seconds = of_all_ranks(ranks_, std::max(own_term, 1e-9));
  const int terms = shares_.back().end;
  dist::Shares better = dist::fastest_shares(seconds, terms);
  if (dist::seconds_of(better, seconds) > kWorthwhile * dist::seconds_of(shares_, seconds)) return false;
  shares_ = std::move(better);
  steps_ = -1;
  return true;
}

}  // namespace mlx::train
