// In memory or in a file (window_store.h).

#include "compress/window_store.h"

#include <cstring>

namespace mlx::compress {

WindowStore::WindowStore(std::int64_t windows, std::int64_t bytes, const data::MemoryBudget& budget)
    : bytes_(bytes), all_(windows * bytes), budget_(budget) {
  if (budget_.take(all_))
    memory_.resize(static_cast<std::size_t>(all_));
  else
    file_ = std::make_unique<data::TemporaryFile>(budget_.folder());
}

WindowStore::~WindowStore() {
  if (!file_) budget_.give(all_);
}

void WindowStore::write(std::int64_t first, std::int64_t count, const void* data) {
  if (file_)
    file_->write(first * bytes_, data, count * bytes_);
  else
    std::memcpy(memory_.data() + first * bytes_, data, static_cast<std::size_t>(count * bytes_));
}

const std::uint8_t* WindowStore::read(std::int64_t first, std::int64_t count) {
  if (!file_) return memory_.data() + first * bytes_;
  memory_.resize(static_cast<std::size_t>(count * bytes_));
  file_->read(first * bytes_, memory_.data(), count * bytes_);
  return memory_.data();
}

}  // namespace mlx::compress
