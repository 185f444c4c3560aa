// The examples of a dataset and their order. Used by datasets and their batch sources.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace mlx::data {

// Indices below a bound. Each takes 4 bytes if the bound allows it, else 8.
class IndexList {
 public:
  IndexList() = default;
  IndexList(std::int64_t size, std::int64_t bound);  // zeros

  bool empty() const { return size() == 0; }
  std::int64_t size() const { return static_cast<std::int64_t>(narrow_.size() + wide_.size()); }
  std::int64_t operator[](std::int64_t i) const {
    const auto at = static_cast<std::size_t>(i);
    return wide_.empty() ? narrow_[at] : wide_[at];
  }
  void set(std::int64_t i, std::int64_t index) {
    const auto at = static_cast<std::size_t>(i);
    if (wide_.empty())
      narrow_[at] = static_cast<std::uint32_t>(index);
    else
      wide_[at] = index;
  }
  void swap(std::int64_t i, std::int64_t j) {
    const std::int64_t index = (*this)[i];
    set(i, (*this)[j]), set(j, index);
  }
  IndexList sorted(std::int64_t begin, std::int64_t end) const;  // a copy of [begin, end), ascending
  // Bytes of `size` indices below `bound`.
  static std::int64_t bytes(std::int64_t size, std::int64_t bound);
  bool operator==(const IndexList&) const = default;

 private:
  std::vector<std::uint32_t> narrow_;
  std::vector<std::int64_t> wide_;  // one of the two is empty
};

// The items that a dataset takes from stored examples, ascending: a range, or a list that copies share.
class IndexSet {
 public:
  IndexSet() = default;
  IndexSet(std::int64_t begin, std::int64_t end);  // [begin, end)
  explicit IndexSet(IndexList indices);
  explicit IndexSet(const std::vector<std::int64_t>& indices);

  std::int64_t size() const { return size_; }
  std::int64_t operator[](std::int64_t i) const { return list_ ? (*list_)[i] : begin_ + i; }
  bool is_range() const { return !list_; }
  // The items at the places in `part`: [20, 30) of [100, 200) is [120, 130).
  IndexSet part(const IndexSet& part) const;

 private:
  std::int64_t begin_ = 0, size_ = 0;
  std::shared_ptr<const IndexList> list_;  // null: the range
};

// The order of one epoch's examples: a Fisher-Yates shuffle of 0 … count-1, keyed by Philox. With a `buffer` below
// count: the order in which they leave a shuffle buffer of that size, as of tf.data and WebDataset. It is filled with
// the first examples; then each draw takes one of those in it, and the next in stored order gets its place. An example
// comes at most `buffer` - 1 places before its own.
IndexList shuffled(std::int64_t count, std::uint64_t seed, std::uint64_t epoch, std::int64_t buffer = 0);

struct BatchOptions;

// Cuts an epoch of `count` examples into batches, and each batch into the shares of its ranks: what the ranks have of a
// batch is, in their order, the batch of one rank alone. A place is that of an example among those of this rank.
class Order {
 public:
  Order(std::int64_t count, const BatchOptions& options);
  std::int64_t count() const { return count_; }
  std::int64_t batches() const;
  void start(std::uint64_t epoch, std::int64_t first);
  // The number of examples in the next batch; 0 at the end.
  std::int64_t advance();
  // The epoch's example at a place, of which the batch is [begin(), begin() + advance()).
  std::int64_t at(std::int64_t place) const {
    const std::int64_t position = shared_ ? position_of(place) : place;
    return order_.empty() ? position : order_[position];
  }
  // The example at a place of a batch as all ranks have it; how many it has, and where this rank's share begins in it.
  std::int64_t in_batch(std::int64_t batch, std::int64_t place) const {
    const std::int64_t position = batch * batch_ + place;
    return order_.empty() ? position : order_[position];
  }
  std::int64_t size_of_batch(std::int64_t batch) const;
  std::int64_t share_begin(std::int64_t batch) const { return (batch < count_ / batch_ ? share_ : last_).begin; }
  std::int64_t batches_of_all() const;
  std::int64_t index() const { return next_ - 1; }  // of the batch
  std::int64_t begin() const { return index() * share_.size(); }
  std::int64_t next() const { return next_ * share_.size(); }  // the place of the next batch
  std::int64_t end() const { return count_ / batch_ * share_.size() + (drop_last_ ? 0 : last_.size()); }
  std::int64_t batch() const { return share_.size(); }  // examples, unless it is the last

 private:
  struct Share {
    std::int64_t begin = 0, end = 0;  // in a batch
    std::int64_t size() const { return end - begin; }
  };
  static Share share_of(std::int64_t batch, const BatchOptions& options);
  std::int64_t position_of(std::int64_t place) const;

  std::int64_t count_, batch_, buffer_;
  std::uint64_t seed_;
  bool shuffle_, drop_last_, shared_;
  Share share_, last_;  // of a whole batch, and of what is left of the epoch after those
  std::int64_t next_ = 0;
  std::uint64_t epoch_ = 0;  // of order_
  IndexList order_;          // empty: in stored order
};

}  // namespace mlx::data
