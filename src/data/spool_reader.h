// Reads the records that a batch source needs, in the order in which it needs them. From a spool's file it reads ahead,
// a window of batches at a time: while the kernel has the file in its cache, on the pool's threads when they have
// nothing else to do, in the order of the file; else on a thread of its own, which waits for the disk, by way of a copy
// in the order of the epoch. The records are the same.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/parallel.h"
#include "data/epoch_file.h"
#include "data/spool.h"
#include "data/spool_window.h"

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
  // `pool`: whose idle threads read ahead.
  SpoolReader(SpoolPtr spool, Pool& pool, CopyEpochs copies = CopyEpochs::kIfNotCached);
  ~SpoolReader();

  std::int64_t record() const { return spool_->record(); }  // bytes of one
  // Waits until no other items are read, so that what first_record reads may change after stop().
  void stop();
  void start(SpoolItems items);
  // The items of the next batch, valid until the next call; none at the end.
  std::span<const std::uint8_t* const> next();

 private:
  std::int64_t item_bytes() const { return items_.records * spool_->record_; }
  const std::uint8_t* in_blocks(std::int64_t record, std::uint8_t* scratch) const;
  void begin_epoch();
  void take_window();
  void hold(SpoolWindow& window);
  void fill(SpoolWindow& window);
  void fill_ahead();
  std::int64_t most_batches() const;
  bool near_each_other() const;

  SpoolPtr spool_;
  CopyEpochs copies_;
  SpoolItems items_;
  bool begun_ = false;                // begin_epoch() has run for these items
  bool by_pool_ = false;              // the kernel has most of the file, so that no read waits
  std::unique_ptr<EpochFile> epoch_;  // null: items are read from the spool
  std::int64_t next_ = 0;             // item
  std::int64_t planned_ = 0;          // the first item of no window yet
  std::int64_t batches_ = 1;          // in the next window
  bool reading_ = false;              // `ahead_` is being filled
  SpoolWindow now_, ahead_;
  Bytes scratch_;
  std::vector<const std::uint8_t*> pointers_;
  Pool& pool_;
  Ahead pieces_;                        // of `ahead_`
  std::unique_ptr<Background> thread_;  // the last two end first
};

}  // namespace mlx::data
