// Sets, shuffles and batches of example indices.

#include "data/order.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "data/batches.h"
#include "kernels/philox.h"

namespace mlx::data {
namespace {

constexpr std::uint64_t kShuffleStream = 0x73687566666C65ull;  // "shuffle"

// Maps 64 random bits to 0 … count-1: the high half of the 128-bit product (bias below count / 2^64).
std::int64_t below(std::uint64_t bits, std::uint64_t count) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::int64_t>(static_cast<std::uint64_t>((Wide{bits} * count) >> 64));
}

}  // namespace

IndexSet::IndexSet(std::int64_t begin, std::int64_t end) : begin_(begin), size_(end - begin) {
  CHECK(0 <= begin && begin <= end);
}

IndexSet::IndexSet(std::vector<std::int64_t> indices)
    : size_(static_cast<std::int64_t>(indices.size())),
      list_(std::make_shared<const std::vector<std::int64_t>>(std::move(indices))) {
  CHECK(std::ranges::is_sorted(*list_) && (list_->empty() || list_->front() >= 0));
}

IndexSet IndexSet::part(const IndexSet& part) const {
  CHECK(part.size_ == 0 || part[part.size_ - 1] < size_);
  if (is_range() && part.is_range()) return {begin_ + part.begin_, begin_ + part.begin_ + part.size_};
  std::vector<std::int64_t> indices(static_cast<std::size_t>(part.size_));
  for (std::int64_t i = 0; i < part.size_; ++i) indices[static_cast<std::size_t>(i)] = (*this)[part[i]];
  return IndexSet(std::move(indices));
}

std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed, std::uint64_t epoch) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), 0);
  std::array<std::uint32_t, 4> random{};
  for (std::int64_t i = count - 1; i > 0; --i) {
    // Two draws per block, by position: i takes half i % 2 of block i / 2.
    if (i == count - 1 || i % 2 == 1)
      random = kernels::random_block(seed, kShuffleStream, epoch, static_cast<std::uint64_t>(i) / 2);
    const std::size_t half = 2 * static_cast<std::size_t>(i % 2);
    const std::uint64_t bits = std::uint64_t{random[half]} << 32 | random[half + 1];
    std::swap(order[static_cast<std::size_t>(i)],
              order[static_cast<std::size_t>(below(bits, static_cast<std::uint64_t>(i) + 1))]);
  }
  return order;
}

Order::Order(std::int64_t count, const BatchOptions& options)
    : count_(count),
      batch_(options.batch),
      seed_(options.seed),
      shuffle_(options.shuffle),
      drop_last_(options.drop_last) {
  CHECK(batch_ > 0);
}

void Order::start(std::uint64_t epoch, std::int64_t first) {
  next_ = first;
  if (shuffle_) order_ = shuffled(count_, seed_, epoch);
}

std::int64_t Order::advance() {
  if (next_ >= batches()) return 0;
  begin_ = next_++ * batch_;
  return std::min(batch_, count_ - begin_);
}

}  // namespace mlx::data
