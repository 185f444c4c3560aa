// Finds the differing rows among the records of two tables. Used by diff_rows, once for each part of the keys.
#pragma once

#include <utility>
#include <vector>

#include "diff/row_scan.h"

namespace mlx::diff {

// Keeps the smallest `limit` values; memory is a small multiple of that.
template <typename Value>
class Smallest {
 public:
  explicit Smallest(std::size_t limit) : limit_(limit) {}
  void put(const Value& value) {
    values_.push_back(value);
    if (values_.size() > 4 * limit_ + 64) trim();
  }
  std::vector<Value> take() {
    trim();
    return std::move(values_);
  }

 private:
  void trim() {
    std::sort(values_.begin(), values_.end());
    if (values_.size() > limit_) values_.resize(limit_);
  }
  std::size_t limit_;
  std::vector<Value> values_;
};

using OffsetPair = std::pair<std::uint64_t, std::uint64_t>;  // before, after

struct RowJoin {
  RowJoin(bool with_key, std::size_t limit, std::uint64_t most_pairs)
      : by_key(with_key),
        kept_pairs(most_pairs),
        added_rows(limit),
        removed_rows(limit),
        doubled_before_rows(limit),
        doubled_after_rows(limit),
        changed_rows(limit) {}

  bool by_key;
  std::uint64_t kept_pairs;  // how many changed pairs are kept at most
  std::uint64_t added = 0, removed = 0, changed = 0, doubled_before = 0, doubled_after = 0;
  Smallest<std::uint64_t> added_rows, removed_rows, doubled_before_rows, doubled_after_rows;  // offsets
  Smallest<OffsetPair> changed_rows;
  std::vector<OffsetPair> pairs;  // every changed row; empty if there are more than kept_pairs

  // Both sorted as scan_rows leaves them.
  void add(const std::vector<RowRecord>& before, const std::vector<RowRecord>& after);

 private:
  using Group = std::pair<std::vector<RowRecord>::const_iterator, std::vector<RowRecord>::const_iterator>;
  void add_group(Group before, Group after);
};

}  // namespace mlx::diff
