// The items of one epoch, copied from a spool's file into a second one, window by window in the order of the epoch.
// Used by SpoolReader where the disk, and not the kernel's cache, has the data: a shuffled epoch read from the spool
// takes a read of the disk for each item, while this copy reads and writes all of it in sequence (the first pass of an
// external shuffle).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/bytes.h"
#include "data/spool.h"

namespace mlx::data {

class EpochFile {
 public:
  struct Items {
    std::function<std::int64_t(std::int64_t)> record;  // of an item; no two items have the same
    std::int64_t begin = 0, end = 0;                   // by place in the epoch
    std::int64_t window = 1;                           // items in each window; the last one may have fewer
  };
  // Null if copying takes more than `memory` bytes, or if the disk has no room for a second copy.
  static std::unique_ptr<EpochFile> copy(const Spool& spool, Items items, std::int64_t memory);

  // The records of window `index`, in the order of the epoch. Each window is read once.
  void read(std::int64_t index, std::uint8_t* to) const;

 private:
  EpochFile(const Spool& spool, Items items);
  void fill(const Spool& spool, std::int64_t memory);
  std::int64_t count() const { return items_.end - items_.begin; }
  std::int64_t windows() const { return (count() + items_.window - 1) / items_.window; }
  // A record, and after it its place in the window.
  std::int64_t entry() const { return record_ + static_cast<std::int64_t>(sizeof(std::uint32_t)); }

  Items items_;
  std::int64_t record_;  // bytes of one
  TemporaryFile file_;
};

}  // namespace mlx::data
