// Each chunk of the array is summed by one rank: it receives that chunk of every other rank's nodes, adds them, and
// sends the sum to all; or every rank receives all nodes whole; or chunks are halved in rounds (halving.h). Messages of
// one sum have one tag: two ranks exchange them in an order that both know.
#include "dist/tree_sum.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"

namespace mlx::dist {
namespace {

constexpr std::int64_t kLine = 16;     // a chunk begins at a multiple: elements of a cache line
constexpr std::int64_t kSmall = 4096;  // elements: with so few more to send, a second message takes longer
constexpr std::int64_t kBlock = 4096;  // elements that are summed at once, so that the terms stay in the cache

// As bf16 holds them.
void round(float* to, const float* from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from_wire(to_wire(from[i]));
}

// Whether ranks [first, first + ranks) have the terms of a node, the first half of them those of its first half, and so
// on: down to a node for each.
bool follow_tree(const Shares& shares, Terms node, std::size_t first, std::size_t ranks) {
  if (ranks == 1) return shares[first] == node;
  const int middle = node.middle();
  return follow_tree(shares, {node.begin, middle}, first, ranks / 2) &&
         follow_tree(shares, {middle, node.end}, first + ranks / 2, ranks / 2);
}

}  // namespace

TreeSum::TreeSum(std::int64_t count, int rank, int ranks, int terms, Wire wire, const std::vector<std::int64_t>& bounds)
    : count_(count),
      rank_(rank),
      ranks_(ranks),
      terms_(terms),
      wire_(wire),
      bounds_(ranks > 1 ? bounds : std::vector<std::int64_t>{}),
      shares_(even_shares(ranks, terms)),
      held_(terms_of(rank, ranks, terms)) {
  CHECK(terms >= ranks);
  next_ = held_.begin;
  choose_route();
}

Traffic total(const Rounds& rounds) {
  Traffic out;
  for (const Traffic& round : rounds) out.bytes += round.bytes, out.messages += round.messages;
  return out;
}

// All ranks choose the same: from the number of elements, the ranks, and their shares.
void TreeSum::choose_route() {
  whole_ = bounds_.empty() && (ranks_ - 2) * count_ <= kSmall;
  halving_.reset();
  if (!halves(ranks_) || !follow_tree(shares_, {0, terms_}, 0, static_cast<std::size_t>(ranks_))) return;
  const std::int64_t levels = std::bit_width(static_cast<unsigned>(ranks_)) - 1;
  whole_ = bounds_.empty() && (levels - 2) * count_ <= kSmall;
  const auto begin = [this](int part) { return begin_of(part); };
  halving_.emplace(whole_ ? doubling_rounds(rank_, ranks_, count_) : halving_rounds(rank_, ranks_, begin), wire_,
                   gathers_packed() ? Wire::kBF16 : Wire::kF32);
}

void TreeSum::share(const Shares& shares) {
  CHECK(nodes_.empty() && state_ == State::kNone && static_cast<int>(shares.size()) == ranks_);
  shares_ = shares;
  held_ = shares[static_cast<std::size_t>(rank_)];
  next_ = held_.begin;
  choose_route();
}

std::size_t TreeSum::bytes_of(std::int64_t elements) const {
  return static_cast<std::size_t>(elements) * (wire_ == Wire::kBF16 ? sizeof(std::uint16_t) : sizeof(float));
}

// Of two nodes of the tree.
void TreeSum::add_to(float* sum, const float* term, std::int64_t count) const {
  for (std::int64_t i = 0; i < count; ++i) sum[i] += term[i];
  if (wire_ == Wire::kBF16) round(sum, sum, count);
}

bool TreeSum::joins_last() const {
  return !nodes_.empty() && is_node({nodes_.back().begin, next_ + 1}, terms_);
}

void TreeSum::put(std::int64_t begin, std::span<const float> part) {
  CHECK(!is_complete());
  const auto count = static_cast<std::int64_t>(part.size());
  if (joins_last()) {
    const float* leaf = part.data();
    if (wire_ == Wire::kBF16) {
      scratch_.resize(std::max(scratch_.size(), part.size()));
      round(scratch_.data(), leaf, count);
      leaf = scratch_.data();
    }
    return add_to(pieces_.back().data() + begin, leaf, count);
  }
  if (room_.empty() && !spare_.empty()) {
    room_ = std::move(spare_.back());
    spare_.pop_back();
  }
  room_.resize(static_cast<std::size_t>(count_));
  if (wire_ == Wire::kBF16) return round(room_.data() + begin, part.data(), count);
  std::copy_n(part.data(), count, room_.data() + begin);
}

void TreeSum::add() {
  CHECK(!is_complete());
  if (!joins_last()) {
    nodes_.push_back({next_, next_});
    pieces_.push_back(std::exchange(room_, {}));
  }
  nodes_.back().end = ++next_;
  while (nodes_.size() > 1 && is_node({nodes_[nodes_.size() - 2].begin, next_}, terms_)) {
    add_to(pieces_[pieces_.size() - 2].data(), pieces_.back().data(), count_);
    spare_.push_back(std::move(pieces_.back()));
    pieces_.pop_back();
    nodes_.pop_back();
    nodes_.back().end = next_;
  }
}

void TreeSum::clear() {
  for (Array& piece : pieces_) spare_.push_back(std::move(piece));
  pieces_.clear();
  nodes_.clear();
  next_ = held_.begin;
}

std::int64_t TreeSum::begin_of(int part) const {
  if (!bounds_.empty()) return bounds_[static_cast<std::size_t>(part)];
  const std::int64_t lines = (count_ + kLine - 1) / kLine;
  return std::min(count_, part * lines / ranks_ * kLine);
}

float* TreeSum::restore() {
  CHECK(nodes_.empty() && state_ == State::kNone);
  next_ = held_.end;
  nodes_.push_back({0, terms_});
  return pieces_.emplace_back(static_cast<std::size_t>(count_)).data();
}

Chunk TreeSum::chunk_of(int rank) const {
  if (whole_) return {0, count_};
  const int part = part_of(rank, ranks_);
  return {begin_of(part), begin_of(part + 1)};
}

std::int64_t TreeSum::begin(Communicator& ranks, int tag) {
  CHECK(is_complete() && !pieces_.empty() && state_ == State::kNone);
  if (ranks_ == 1) return 0;
  tag_ = tag;
  state_ = State::kReducing;
  if (halving_)
    halving_->reduce(ranks, tag_, pieces_.front().data());
  else
    exchange_chunks(ranks);
  return total(reducing()).bytes + (bounds_.empty() ? total(gathering()).bytes : 0);
}

Rounds TreeSum::reducing() const {
  if (ranks_ == 1) return {};
  Rounds out;
  if (halving_) {
    for (const HalvingRound& round : halving_->rounds())
      out.push_back({static_cast<std::int64_t>(bytes_of(round.given.size())), 1});
    return out;
  }
  const auto nodes = static_cast<std::int64_t>(nodes_of(held_, terms_).size());
  std::int64_t elements = 0;
  for (int other = 0; other < ranks_; ++other)
    if (other != rank_) elements += nodes * chunk_of(other).size();
  return {{static_cast<std::int64_t>(bytes_of(elements)), nodes * (ranks_ - 1)}};
}

Rounds TreeSum::gathering() const {
  if (whole_ || ranks_ == 1) return {};
  const std::int64_t element = gathers_packed() ? sizeof(std::uint16_t) : sizeof(float);
  if (!halving_) return {{(ranks_ - 1) * chunk_of(rank_).size() * element, ranks_ - 1}};
  Rounds out;
  for (const HalvingRound& round : halving_->rounds()) out.push_back({round.kept.size() * element, 1});
  std::ranges::reverse(out);
  return out;
}

std::int64_t TreeSum::gather(Communicator& ranks, int tag) {
  CHECK(is_complete() && state_ == State::kNone && !bounds_.empty());
  tag_ = tag;
  begin_to_gather(ranks);
  return total(gathering()).bytes;
}

void TreeSum::begin_to_gather(Communicator& ranks) {
  state_ = State::kGathering;
  if (halving_)
    halving_->gather(ranks, tag_, pieces_.front().data());
  else
    gather_chunks(ranks);
}

bool TreeSum::advance(Communicator& ranks, bool poll) {
  if (state_ == State::kNone) return true;
  const bool done = halving_ ? halving_->advance(ranks, poll)
                    : poll   ? ranks.poll(transfers_)
                             : ranks.advance(transfers_);
  if (!done) return false;
  const bool reduced = state_ == State::kReducing;
  if (!halving_) reduced ? sum_chunk() : take_gathered();
  state_ = State::kNone;
  if (!reduced || whole_ || !bounds_.empty()) return true;
  begin_to_gather(ranks);
  return false;
}

std::int64_t TreeSum::exchange(Communicator& ranks, int tag) {
  const std::int64_t sent = begin(ranks, tag);
  while (!advance(ranks)) continue;
  return sent;
}

void TreeSum::exchange_chunks(Communicator& ranks) {
  const bool packed = wire_ == Wire::kBF16;
  const Chunk own = chunk_of(rank_);
  transfers_.clear();
  arrived_nodes_.clear();
  arrived_.clear();
  std::vector<int> senders;  // of the nodes
  for (int from = 0; from < ranks_; ++from) {
    if (from == rank_) continue;
    for (const Terms node : nodes_of(shares_[static_cast<std::size_t>(from)], terms_)) {
      arrived_nodes_.push_back(node);
      senders.push_back(from);
    }
  }
  received_.resize(senders.size() * static_cast<std::size_t>(own.size()));
  arriving_.resize(packed ? received_.size() : 0);
  for (std::size_t i = 0; i < senders.size(); ++i) {
    const std::size_t at = i * static_cast<std::size_t>(own.size());
    arrived_.push_back(received_.data() + at);
    void* const to = packed ? static_cast<void*>(arriving_.data() + at) : received_.data() + at;
    transfers_.push_back(ranks.receive(senders[i], tag_, to, bytes_of(own.size())));
  }
  const auto count = static_cast<std::size_t>(count_);
  leaving_.resize(packed ? pieces_.size() * count : 0);
  for (std::size_t i = 0; packed && i < pieces_.size(); ++i)
    pack(leaving_.data() + i * count, pieces_[i].data(), count_);
  for (int other = 0; other < ranks_; ++other) {
    const Chunk chunk = chunk_of(other);
    for (std::size_t i = 0; other != rank_ && i < pieces_.size(); ++i) {
      const void* const from = packed ? static_cast<const void*>(leaving_.data() + i * count + chunk.begin)
                                      : pieces_[i].data() + chunk.begin;
      transfers_.push_back(ranks.send(other, tag_, from, bytes_of(chunk.size())));
    }
  }
}

// Afterwards this rank's chunk of the first piece is the sum.
void TreeSum::sum_chunk() {
  const Chunk own = chunk_of(rank_);
  unpack(received_.data(), arriving_.data(), static_cast<std::int64_t>(arriving_.size()));
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    arrived_nodes_.push_back(nodes_[i]);
    arrived_.push_back(pieces_[i].data() + own.begin);
  }
  constexpr std::size_t kMostLevels = 32;  // of a tree of int terms
  scratch_.resize(std::max(scratch_.size(), kMostLevels * static_cast<std::size_t>(kBlock)));
  for (std::int64_t begin = 0; begin < own.size(); begin += kBlock) {
    const std::int64_t size = std::min(kBlock, own.size() - begin);
    const float* const sum = sum_of({0, terms_}, begin, size, 0);
    float* const out = pieces_.front().data() + own.begin + begin;
    if (sum != out) std::copy_n(sum, size, out);
  }
}

// The sum of a node in a block of this rank's chunk. The scratch has room for a sum at each depth.
const float* TreeSum::sum_of(Terms node, std::int64_t begin, std::int64_t size, std::size_t depth) {
  const auto found = std::ranges::find(arrived_nodes_, node);
  if (found != arrived_nodes_.end()) return arrived_[static_cast<std::size_t>(found - arrived_nodes_.begin())] + begin;
  float* const out = scratch_.data() + depth * static_cast<std::size_t>(kBlock);
  const float* const first = sum_of({node.begin, node.middle()}, begin, size, depth + 1);
  std::copy_n(first, size, out);
  add_to(out, sum_of({node.middle(), node.end}, begin, size, depth + 1), size);
  return out;
}

void TreeSum::gather_chunks(Communicator& ranks) {
  const bool packed = gathers_packed();
  const std::size_t element = packed ? sizeof(std::uint16_t) : sizeof(float);
  const auto bytes_of = [&](const Chunk& chunk) { return static_cast<std::size_t>(chunk.size()) * element; };
  const Chunk own = chunk_of(rank_);
  float* const result = pieces_.front().data();
  arriving_.resize(packed ? static_cast<std::size_t>(count_) : 0);
  if (packed) pack(leaving_.data(), result + own.begin, own.size());
  const void* const from = packed ? static_cast<const void*>(leaving_.data()) : result + own.begin;
  transfers_.clear();
  for (int other = 0; other < ranks_; ++other) {
    if (other == rank_) continue;
    const Chunk chunk = chunk_of(other);
    void* const to = packed ? static_cast<void*>(arriving_.data() + chunk.begin) : result + chunk.begin;
    transfers_.push_back(ranks.receive(other, tag_, to, bytes_of(chunk)));
    transfers_.push_back(ranks.send(other, tag_, from, bytes_of(own)));
  }
}

void TreeSum::take_gathered() {
  if (!gathers_packed()) return;
  for (int other = 0; other < ranks_; ++other) {
    const Chunk chunk = chunk_of(other);
    if (other != rank_) unpack(pieces_.front().data() + chunk.begin, arriving_.data() + chunk.begin, chunk.size());
  }
}

}  // namespace mlx::dist
