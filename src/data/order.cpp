// Sets, shuffles and batches of example indices.

#include "data/order.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.h"
#include "data/batches.h"
#include "kernels/philox.h"

namespace mlx::data {
namespace {

constexpr std::uint64_t kShuffleStream = 0x73687566666C65ull;  // "shuffle"

// Random numbers of an epoch, by position. Two come from a block: i takes half i % 2 of block i / 2.
class OrderDraws {
 public:
  OrderDraws(std::uint64_t seed, std::uint64_t epoch) : seed_(seed), epoch_(epoch) {}

  // Of 0 … count-1, for position i: the high half of the 128-bit product of 64 random bits (bias below count / 2^64).
  std::int64_t below(std::int64_t count, std::int64_t i) {
    if (i / 2 != block_)
      random_ = kernels::random_block(seed_, kShuffleStream, epoch_, static_cast<std::uint64_t>(i) / 2);
    block_ = i / 2;
    const std::size_t half = 2 * static_cast<std::size_t>(i % 2);
    const std::uint64_t bits = std::uint64_t{random_[half]} << 32 | random_[half + 1];
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::int64_t>(
        static_cast<std::uint64_t>((Wide{bits} * static_cast<std::uint64_t>(count)) >> 64));
  }

 private:
  std::uint64_t seed_, epoch_;
  std::int64_t block_ = -1;
  std::array<std::uint32_t, 4> random_{};
};

IndexList through_buffer(std::int64_t count, std::int64_t size, OrderDraws& draws) {
  IndexList order(count, count), buffer(size, count);
  for (std::int64_t i = 0; i < size; ++i) buffer.set(i, i);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t next = i + size, held = std::min(size, count - i);
    const std::int64_t drawn = draws.below(held, i);
    order.set(i, buffer[drawn]);
    buffer.set(drawn, next < count ? next : buffer[held - 1]);
  }
  return order;
}

constexpr std::int64_t kNarrow = std::int64_t{1} << 32;

IndexList copy_of(const std::vector<std::int64_t>& indices) {
  const auto size = static_cast<std::int64_t>(indices.size());
  IndexList out(size, size == 0 ? 0 : std::ranges::max(indices) + 1);
  for (std::int64_t i = 0; i < size; ++i) out.set(i, indices[static_cast<std::size_t>(i)]);
  return out;
}

}  // namespace

IndexList::IndexList(std::int64_t size, std::int64_t bound) {
  if (bound <= kNarrow)
    narrow_.resize(static_cast<std::size_t>(size));
  else
    wide_.resize(static_cast<std::size_t>(size));
}

IndexList IndexList::sorted(std::int64_t begin, std::int64_t end) const {
  IndexList out;
  const auto copy = [&](const auto& from, auto& to) {
    if (from.empty()) return;
    to.assign(from.begin() + begin, from.begin() + end);
    std::ranges::sort(to);
  };
  copy(narrow_, out.narrow_), copy(wide_, out.wide_);
  return out;
}

std::int64_t IndexList::bytes(std::int64_t size, std::int64_t bound) {
  return size * (bound <= kNarrow ? 4 : 8);
}

IndexSet::IndexSet(std::int64_t begin, std::int64_t end) : begin_(begin), size_(end - begin) {
  CHECK(0 <= begin && begin <= end);
}

IndexSet::IndexSet(IndexList indices)
    : size_(indices.size()), list_(std::make_shared<const IndexList>(std::move(indices))) {
  for (std::int64_t i = 0; i < size_; ++i) CHECK((*list_)[i] >= (i == 0 ? 0 : (*list_)[i - 1]));
}

IndexSet::IndexSet(const std::vector<std::int64_t>& indices) : IndexSet(copy_of(indices)) {}

IndexSet IndexSet::part(const IndexSet& part) const {
  CHECK(part.size_ == 0 || part[part.size_ - 1] < size_);
  if (is_range() && part.is_range()) return {begin_ + part.begin_, begin_ + part.begin_ + part.size_};
  if (part.size_ == 0) return {};
  IndexList indices(part.size_, (*this)[part[part.size_ - 1]] + 1);
  for (std::int64_t i = 0; i < part.size_; ++i) indices.set(i, (*this)[part[i]]);
  return IndexSet(std::move(indices));
}

IndexList shuffled(std::int64_t count, std::uint64_t seed, std::uint64_t epoch, std::int64_t buffer) {
  OrderDraws draws(seed, epoch);
  if (buffer > 0 && buffer < count) return through_buffer(count, buffer, draws);
  IndexList order(count, count);
  for (std::int64_t i = 0; i < count; ++i) order.set(i, i);
  for (std::int64_t i = count - 1; i > 0; --i) order.swap(i, draws.below(i + 1, i));
  return order;
}

Order::Share Order::share_of(std::int64_t batch, const BatchOptions& options) {
  return {batch * options.rank / options.ranks, batch * (options.rank + options.shares) / options.ranks};
}

Order::Order(std::int64_t count, const BatchOptions& options)
    : count_(count),
      batch_(options.batch),
      buffer_(options.shuffle_buffer),
      seed_(options.seed),
      shuffle_(options.shuffle),
      drop_last_(options.drop_last),
      shared_(options.ranks > 1) {
  CHECK(0 <= options.rank && options.shares > 0 && options.rank + options.shares <= options.ranks);
  CHECK(options.ranks <= batch_);
  share_ = share_of(batch_, options);
  last_ = share_of(count % batch_, options);
}

std::int64_t Order::batches() const {
  return count_ / batch_ + (drop_last_ || last_.size() == 0 ? 0 : 1);
}

std::int64_t Order::batches_of_all() const {
  return count_ / batch_ + (drop_last_ || count_ % batch_ == 0 ? 0 : 1);
}

std::int64_t Order::size_of_batch(std::int64_t batch) const {
  return std::min(batch_, count_ - batch * batch_);
}

std::int64_t Order::position_of(std::int64_t place) const {
  const std::int64_t whole = count_ / batch_ * share_.size();
  if (place >= whole) return count_ / batch_ * batch_ + last_.begin + place - whole;
  return place / share_.size() * batch_ + share_.begin + place % share_.size();
}

void Order::start(std::uint64_t epoch, std::int64_t first) {
  next_ = first;
  if (!shuffle_ || (epoch == epoch_ && !order_.empty())) return;
  order_ = {};  // before the next, so that there are never both
  order_ = shuffled(count_, seed_, epoch, buffer_);
  epoch_ = epoch;
}

std::int64_t Order::advance() {
  if (next_ >= batches()) return 0;
  ++next_;
  return std::min(share_.size(), end() - begin());
}

}  // namespace mlx::data
