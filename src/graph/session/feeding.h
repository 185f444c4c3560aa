// Feeds a GPU's session. The inputs of a run and the key of its random numbers are side by side in one block of device
// memory, at the same addresses in every run, because captured launches hold these addresses.
//
// The staged inputs of the next run are copied to pinned memory at once. From there the copy stream copies them to a
// second block while the current run computes. When their own run begins they are copied into the first block: a copy
// within device memory, microseconds for a batch. So one capture serves every run. Used by sessions only.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/memory.h"

namespace mlx::graph {

struct FedBytes {
  ValueId value;
  const void* data;
  std::size_t bytes;
};

// The bytes of a graph's inputs at these sizes, by symbol.
std::size_t feeding_bytes(const Graph& graph, const std::vector<std::int64_t>& sizes);

class Feeding {
 public:
  using Take = std::function<Memory(std::size_t bytes, const std::string& what)>;  // throws if there is no more

  Feeding(const kernels::Device& device, std::size_t values);
  Feeding(const Feeding&) = delete;
  Feeding& operator=(const Feeding&) = delete;
  ~Feeding();  // waits until none of its memory is used

  // Feeds the next run, after the runs before; drops staged inputs. The bytes may change once it returns.
  void upload(const std::vector<FedBytes>& fed, const kernels::RandomKey& key, const Take& take);
  // The same while the run before may still compute; replaces staged inputs that were not used. Waits only for the copy
  // that was staged two times ago.
  void stage(const std::vector<FedBytes>& fed, const kernels::RandomKey& key, const Take& take);
  bool staged() const { return staged_; }
  void use_staged(const Take& take);  // for the next run, as upload()

  // The addresses for the run that is fed, until the next upload() or stage().
  const void* place(ValueId value) const { return at(block_.get(), offset_[static_cast<std::size_t>(value)]); }
  const kernels::RandomKey* key() const { return static_cast<const kernels::RandomKey*>(block_.get()); }

 private:
  static std::uint8_t* at(void* block, std::size_t offset) { return static_cast<std::uint8_t*>(block) + offset; }
  void fit(const std::vector<FedBytes>& fed);
  void fit_block(const Take& take);
  void fit_ahead(const Take& take);

  const kernels::Device& device_;
  // The layout of all blocks; the key comes first. It only grows, and `size_` with it.
  std::vector<std::size_t> offset_, bytes_;  // by value; 0 bytes: never fed
  std::size_t size_;
  Memory block_, ahead_;
  std::size_t block_size_ = 0, ahead_size_ = 0;
  std::array<PinnedMemory, 2> pinned_;  // one is written while the other is copied
  std::array<Event, 2> sent_;           // after the copy from each
  Event taken_;                         // after the copy from `ahead_`
  std::size_t turn_ = 0;                // the pinned memory that was written last
  bool staged_ = false;
};

}  // namespace mlx::graph
