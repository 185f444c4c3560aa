// Records of one size, written once in order and then read at random by any number of threads: rows, tokens, pixels of
// a loaded split. They stand in memory while they fit a budget. Beyond it they go to a temporary file, from which batch
// sources read ahead in the order of the epoch. Where records stand changes no bit of any batch.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "data/order.h"
#include "data/temporary_file.h"

namespace mlx::data {

// The memory that loaded data may take. Copies share it: the splits of one training draw from one budget. Thread-safe.
class MemoryBudget {
 public:
  MemoryBudget() = default;  // without a limit
  // `folder`: of temporary files, on the disk that has room for the data.
  MemoryBudget(std::int64_t bytes, std::string folder);

  bool take(std::int64_t bytes) const;  // false, and takes nothing, if fewer are left
  void give(std::int64_t bytes) const;
  bool has(std::int64_t bytes) const { return !state_ || state_->left >= bytes; }
  bool limited() const { return state_ != nullptr; }
  std::int64_t window() const;  // bytes of one of the two windows that a source reads ahead
  const std::string& folder() const { return state_->folder; }

 private:
  struct State {
    std::int64_t bytes = 0;
    std::string folder;
    std::atomic<std::int64_t> left = 0;
  };
  std::shared_ptr<State> state_;  // null: no limit
};

// Memory of this size, in large pages if it may: records in random order lie on a page each, and with small pages their
// addresses take longer to find than the records.
std::unique_ptr<std::uint8_t[]> make_block(std::int64_t bytes);

class Spool {
 public:
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  std::int64_t count() const { return count_; }
  std::int64_t record() const { return record_; }  // bytes of one
  bool in_memory() const { return !file_; }
  bool is_cached() const;                                         // whether the kernel's cache has most of the file
  const std::string& folder() const { return budget_.folder(); }  // of the file
  const MemoryBudget& budget() const { return budget_; }
  // Copies `count` records from `first` on.
  void read(std::int64_t first, std::int64_t count, void* to) const;
  void read_ahead(std::int64_t first, std::int64_t count) const;  // of the file, by the kernel
  // Calls visit(first, records, count) for all of [begin, end) in order, by pieces of about a megabyte.
  void scan(std::int64_t begin, std::int64_t end,
            const std::function<void(std::int64_t, const std::uint8_t*, std::int64_t)>& visit) const;
  // Calls visit(record) for each of the items in order. Records between them are read too.
  void scan(const IndexSet& items, const std::function<void(const std::uint8_t*)>& visit) const;
  // One record: valid as long as the spool and until `scratch` changes.
  const std::uint8_t* find(std::int64_t index, Bytes& scratch) const;
  // Bytes of each of the two windows that a SpoolReader reads ahead, at least of one batch; 0 in memory. It holds them
  // and kBlock bytes.
  std::int64_t window() const { return file_ ? budget_.window() : 0; }
  static constexpr std::int64_t kBlock = 1 << 20;  // bytes of one read or write of the file, unless a record is larger

 private:
  friend class SpoolWriter;
  friend class SpoolReader;
  using Block = std::unique_ptr<std::uint8_t[]>;  // aligned for any number

  static constexpr std::int64_t kMemoryBlock = 32 << 20;  // memory is taken as it is written

  Spool(std::int64_t record, MemoryBudget budget);
  void set_block(std::int64_t bytes);
  std::int64_t in_block() const { return std::int64_t{1} << block_bits_; }
  const std::uint8_t* at(std::int64_t index) const {  // in memory
    return blocks_[static_cast<std::size_t>(index >> block_bits_)].get() + (index & (in_block() - 1)) * record_;
  }

  std::int64_t record_, count_ = 0;
  int block_bits_ = 0;  // a block has 2^block_bits_ records
  std::vector<Block> blocks_;
  std::optional<TemporaryFile> file_;
  MemoryBudget budget_;
  std::int64_t taken_ = 0;  // of the budget
};

using SpoolPtr = std::shared_ptr<const Spool>;

class SpoolWriter {
 public:
  SpoolWriter(std::int64_t record, MemoryBudget budget);
  // Appends `count` records. Throws kIo, with the folder, if the file cannot be made or the disk is full.
  void append(const void* records, std::int64_t count);
  SpoolPtr finish();

 private:
  std::span<std::uint8_t> room();  // after the last record: whole records, at least one
  void spill();
  void write(const std::uint8_t* from, std::int64_t records);

  std::shared_ptr<Spool> spool_;
  std::int64_t written_ = 0;  // records in the file
};

}  // namespace mlx::data
