// What goes from one piece of a model to the next (segments.h), for all windows of the calibration data: in memory
// while it fits the budget, else in a temporary file. Used by layer_by_layer.cpp.
#pragma once

#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "data/spool.h"

namespace mlx::compress {

class WindowStore {
 public:
  // Of so many windows of `bytes` each.
  WindowStore(std::int64_t windows, std::int64_t bytes, const data::MemoryBudget& budget);
  ~WindowStore();
  WindowStore(const WindowStore&) = delete;
  WindowStore& operator=(const WindowStore&) = delete;

  std::int64_t bytes() const { return bytes_; }  // of a window
  void write(std::int64_t first, std::int64_t count, const void* data);
  // Valid until the next call of any.
  const std::uint8_t* read(std::int64_t first, std::int64_t count);

 private:
  std::int64_t bytes_, all_;
  data::MemoryBudget budget_;
  Bytes memory_;  // all windows, or those that were read last
  std::unique_ptr<data::TemporaryFile> file_;
};

}  // namespace mlx::compress
