// Reads the records that a batch source needs, in the order in which it needs them. From a spool's file it reads ahead
// on a thread of its own, a window of batches at a time: while the kernel has the file in its cache in the order of the
// file, else by way of a copy in the order of the epoch. The records are the same.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/parallel.h"
#include "data/epoch_file.h"
#include "data/spool.h"

namespace mlx::data {

// Whether a shuffled epoch is copied in its order before it is read (EpochFile). Tests say what they test.
enum class CopyEpochs : std::uint8_t { kIfNotCached, kAlways, kNever };

// Begins to load a record into the processor's cache. Shuffled records lie anywhere in memory: whoever uses one has a
// later one loaded meanwhile.
inline void prefetch(const std::uint8_t* record, std::int64_t bytes) {
  constexpr std::int64_t kLine = 64, kMost = 1024;  // the processor itself goes on with long records
  for (std::int64_t at = 0; at < (bytes < kMost ? bytes : kMost); at += kLine) __builtin_prefetch(record + at);
}

class SpoolReader {
 public:
  // An item is a run of records, such as a row or a window of text; one that reaches beyond the last record is cut off
  // there.
  struct Items {
    std::function<std::int64_t(std::int64_t)> first_record;  // of an item; called on any thread until the next start()
    std::int64_t begin = 0, end = 0;                         // the items, by place in the epoch
    std::int64_t batch = 1;                                  // items in a batch; the last one may have fewer
    std::int64_t records = 1;                                // in an item
  };
  explicit SpoolReader(SpoolPtr spool, CopyEpochs copies = CopyEpochs::kIfNotCached);
  ~SpoolReader();

  std::int64_t record() const { return spool_->record(); }  // bytes of one
  // Waits until no other items are read, so that what first_record reads may change after stop().
  void stop();
  void start(Items items);
  // The items of the next batch, valid until the next call; none at the end.
  std::span<const std::uint8_t* const> next();

 private:
  struct Window {
    std::int64_t begin = 0, end = 0;  // items
    std::unique_ptr<std::uint8_t[]> bytes;
    std::int64_t capacity = 0;
  };
  struct Wanted {
    std::int64_t record, place;  // place: of the item in the window
  };

  std::int64_t item_bytes() const { return items_.records * spool_->record_; }
  const std::uint8_t* in_blocks(std::int64_t record, std::uint8_t* scratch) const;
  void begin_epoch();
  void take_window();
  void prepare(Window& window);
  void fill(Window& window);
  std::size_t read_ahead(std::size_t from) const;
  std::int64_t most_batches() const;
  bool in_file_order() const;
  std::int64_t end_of(const Wanted& wanted) const;
  std::size_t end_of_run(std::size_t from) const;
  void fill_run(std::size_t from, std::size_t until, std::uint8_t* to);

  SpoolPtr spool_;
  CopyEpochs copies_;
  Items items_;
  bool begun_ = false;                // begin_epoch() has run for these items
  bool cached_ = true;                // the kernel has most of the file
  std::unique_ptr<EpochFile> epoch_;  // null: items are read from the spool
  std::int64_t next_ = 0;             // item
  std::int64_t planned_ = 0;          // the first item of no window yet
  std::int64_t batches_ = 1;          // in the next window
  bool reading_ = false;              // `ahead_` is being filled
  Window now_, ahead_;
  std::vector<Wanted> wanted_;  // of the window that is being filled, sorted by record
  Bytes run_, scratch_;
  std::vector<const std::uint8_t*> pointers_;
  std::unique_ptr<Background> thread_;  // last, so that it ends first
};

}  // namespace mlx::data
