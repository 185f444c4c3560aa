// Some batches of a spool's file, read at once: a SpoolReader reads one ahead while another is used. Records are read
// in the order of the file, in pieces that threads may share, and lie in memory in the order of the epoch.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "data/spool.h"

namespace mlx::data {

// An item is a run of records, such as a row or a window of text; one that reaches beyond the last record is cut off
// there.
struct SpoolItems {
  std::function<std::int64_t(std::int64_t)> first_record;  // of an item; called on any thread until the next start()
  std::int64_t begin = 0, end = 0;                         // the items, by place in the epoch
  std::int64_t batch = 1;                                  // items in a batch; the last one may have fewer
  std::int64_t records = 1;                                // in an item
};

class SpoolWindow {
 public:
  // Bytes of an item beside its records.
  static constexpr std::int64_t kPlan = sizeof(std::uint64_t);

  // Takes memory for the items [begin, end) and nothing else; the memory of other items is used again.
  void hold(const Spool& spool, const SpoolItems& items, std::int64_t begin, std::int64_t end);
  void release() { *this = {}; }  // the memory; holds no items then
  std::int64_t begin() const { return begin_; }
  std::int64_t end() const { return end_; }
  std::uint8_t* bytes() { return bytes_.get(); }  // of the first item; the others follow it
  const std::uint8_t* item(std::int64_t place) const { return bytes_.get() + (place - begin_) * item_bytes_; }

  // Finds out where the items lie in the file, for read() and read_from_disk().
  void plan();
  std::int64_t pieces() const { return static_cast<std::int64_t>(ends_.size()); }
  // Reads a piece of the plan, each once, on any thread. Throws kIo if the file cannot be read.
  void read(std::int64_t piece);
  // Reads all pieces, and tells the kernel of many reads before it waits for the first.
  void read_from_disk();

 private:
  struct Wanted {
    std::uint64_t place : 26, record : 38;  // place: in the window
  };
  static_assert(sizeof(Wanted) == kPlan);

  std::int64_t end_of(const Wanted& wanted) const;
  void sort(std::int64_t piece);
  std::size_t end_of_run(std::size_t from, std::size_t end) const;
  std::size_t read_ahead(std::size_t from) const;
  void read_run(std::size_t from, std::size_t until);
  void copy(const Wanted& wanted, const std::uint8_t* records, std::int64_t first);

  const Spool* spool_ = nullptr;
  SpoolItems items_;
  std::int64_t begin_ = 0, end_ = 0;
  std::int64_t item_bytes_ = 0;
  std::unique_ptr<std::uint8_t[]> bytes_;
  std::int64_t capacity_ = 0;
  std::vector<Wanted> wanted_;     // by piece, each of which has a part of the file; sorted by record once it is read
  std::vector<std::size_t> ends_;  // of the pieces in wanted_
};

}  // namespace mlx::data
