// A rank knows from its number alone what it sends and gets in each round. On the way back the rounds are taken in
// reverse: a rank sends what it has kept in one, and gets what it has given away.
#include "dist/halving.h"

#include <bit>
#include <utility>

namespace mlx::dist {
namespace {

bool is_power_of_two(int ranks) {
  return std::has_single_bit(static_cast<unsigned>(ranks));
}

}  // namespace

int part_of(int rank, int ranks) {
  if (!is_power_of_two(ranks)) return rank;
  int part = 0;
  for (int bit = 1; bit < ranks; bit *= 2) part = 2 * part + ((rank & bit) != 0 ? 1 : 0);
  return part;
}

std::vector<HalvingRound> halving_rounds(int rank, int ranks, const std::function<std::int64_t(int part)>& begin) {
  std::vector<HalvingRound> rounds;
  int first = 0, parts = ranks;  // that this rank has
  for (int bit = 1; bit < ranks; bit *= 2) {
    parts /= 2;
    const Chunk lower{begin(first), begin(first + parts)}, upper{begin(first + parts), begin(first + 2 * parts)};
    const bool keeps_upper = (rank & bit) != 0;
    rounds.push_back({rank ^ bit, keeps_upper ? lower : upper, keeps_upper ? upper : lower});
    if (keeps_upper) first += parts;
  }
  return rounds;
}

std::vector<HalvingRound> doubling_rounds(int rank, int ranks, std::int64_t count) {
  std::vector<HalvingRound> rounds;
  for (int bit = 1; bit < ranks; bit *= 2) rounds.push_back({rank ^ bit, {0, count}, {0, count}});
  return rounds;
}

void Halving::reduce(Communicator& ranks, int tag, float* data) {
  reduces_ = true, done_ = 0, tag_ = tag, data_ = data;
  exchange(ranks);
}

void Halving::gather(Communicator& ranks, int tag, float* data) {
  reduces_ = false, done_ = 0, tag_ = tag, data_ = data;
  exchange(ranks);
}

bool Halving::advance(Communicator& ranks, bool poll) {
  if (poll ? !ranks.poll(transfers_) : !ranks.advance(transfers_)) return false;
  take();
  if (++done_ == rounds_.size()) return true;
  exchange(ranks);
  return false;
}

void Halving::exchange(Communicator& ranks) {
  const HalvingRound& round = rounds_[reduces_ ? done_ : rounds_.size() - 1 - done_];
  const Chunk leaves = reduces_ ? round.given : round.kept, arrives = reduces_ ? round.kept : round.given;
  const auto to_come = static_cast<std::size_t>(arrives.size()), to_go = static_cast<std::size_t>(leaves.size());
  transfers_.clear();
  if ((reduces_ ? adds_ : gathers_) == Wire::kBF16) {
    if (packed_arriving_.size() < to_come) packed_arriving_.resize(to_come);
    if (packed_leaving_.size() < to_go) packed_leaving_.resize(to_go);
    pack(packed_leaving_.data(), data_ + leaves.begin, leaves.size());
    transfers_.push_back(ranks.receive(round.other, tag_, packed_arriving_.data(), to_come * sizeof(std::uint16_t)));
    transfers_.push_back(ranks.send(round.other, tag_, packed_leaving_.data(), to_go * sizeof(std::uint16_t)));
    return;
  }
  if (reduces_ && arriving_.size() < to_come) arriving_.resize(to_come);
  float* const to = reduces_ ? arriving_.data() : data_ + arrives.begin;
  transfers_.push_back(ranks.receive(round.other, tag_, to, to_come * sizeof(float)));
  transfers_.push_back(ranks.send(round.other, tag_, data_ + leaves.begin, to_go * sizeof(float)));
}

// Adds or keeps what has come in the current round.
void Halving::take() {
  const HalvingRound& round = rounds_[reduces_ ? done_ : rounds_.size() - 1 - done_];
  const Chunk arrives = reduces_ ? round.kept : round.given;
  float* const to = data_ + arrives.begin;
  const bool packed = (reduces_ ? adds_ : gathers_) == Wire::kBF16;
  if (!reduces_ && packed) unpack(to, packed_arriving_.data(), arrives.size());
  if (!reduces_) return;
  for (std::int64_t i = 0; !packed && i < arrives.size(); ++i) to[i] += arriving_[static_cast<std::size_t>(i)];
  for (std::int64_t i = 0; packed && i < arrives.size(); ++i)
    to[i] = from_wire(to_wire(to[i] + from_wire(packed_arriving_[static_cast<std::size_t>(i)])));
}

}  // namespace mlx::dist
