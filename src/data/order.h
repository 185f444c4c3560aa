// The examples of a dataset and their order. Used by datasets and their batch sources.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace mlx::data {

// The items that a dataset takes from stored examples, ascending: a range, or a list that copies share.
class IndexSet {
 public:
  IndexSet() = default;
  IndexSet(std::int64_t begin, std::int64_t end);  // [begin, end)
  explicit IndexSet(std::vector<std::int64_t> indices);

  std::int64_t size() const { return size_; }
  std::int64_t operator[](std::int64_t i) const { return list_ ? (*list_)[static_cast<std::size_t>(i)] : begin_ + i; }
  bool is_range() const { return !list_; }
  // The items at the places in `part`: [20, 30) of [100, 200) is [120, 130).
  IndexSet part(const IndexSet& part) const;

 private:
  std::int64_t begin_ = 0, size_ = 0;
  std::shared_ptr<const std::vector<std::int64_t>> list_;  // null: the range
};

// The order of one epoch's examples: a Fisher-Yates shuffle of 0 … count-1, keyed by Philox.
std::vector<std::int64_t> shuffled(std::int64_t count, std::uint64_t seed, std::uint64_t epoch);

struct BatchOptions;

// Cuts an epoch of `count` examples into batches.
class Order {
 public:
  Order(std::int64_t count, const BatchOptions& options);
  std::int64_t count() const { return count_; }
  std::int64_t batches() const { return drop_last_ ? count_ / batch_ : (count_ + batch_ - 1) / batch_; }
  void start(std::uint64_t epoch, std::int64_t first);
  // The number of examples in the next batch; 0 at the end.
  std::int64_t advance();
  // The batch's `i`-th example.
  std::int64_t example(std::int64_t i) const {
    return order_.empty() ? begin_ + i : order_[static_cast<std::size_t>(begin_ + i)];
  }

 private:
  std::int64_t count_, batch_;
  std::uint64_t seed_;
  bool shuffle_, drop_last_;
  std::int64_t next_ = 0, begin_ = 0;
  std::vector<std::int64_t> order_;  // empty: in stored order
};

}  // namespace mlx::data
