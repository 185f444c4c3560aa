// Keeps the unread bytes at the front of one buffer.
#include "data/readers/window.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/progress.h"
#include "data/readers/csv_dialect.h"
#include "data/readers/table.h"

namespace mlx::data {
namespace {
constexpr std::size_t kBlock = std::size_t{256} << 10;
constexpr std::size_t kFirstBlock = std::size_t{16} << 10;  // after a jump, where often only one row is read
constexpr std::size_t kLongestRow = std::size_t{16} << 20;
}  // namespace

Window::Window(std::unique_ptr<Source> source)
    : source_(std::move(source)), buffer_(kBlock + kPadding, '\0'), next_read_(kBlock) {}

void Window::grow() {
  const std::size_t kept = end_ - begin_;
  if (kept >= kLongestRow) corrupt("a row of more than 16 MiB");
  std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_), buffer_.begin() + static_cast<std::ptrdiff_t>(end_),
            buffer_.begin());
  begin_ = 0, end_ = kept;
  if (kept > (buffer_.size() - kPadding) / 2)
    buffer_.resize(std::min(2 * (buffer_.size() - kPadding), kLongestRow) + kPadding);
  const std::size_t room = buffer_.size() - kPadding;
  const std::size_t wanted = std::min(next_read_, room - kept);
  next_read_ = std::max(kBlock, room);
  const std::size_t got = source_->read_at(offset_ + kept, buffer_.data() + kept, wanted);
  ended_ = got < wanted;
  if (const void* zero = std::memchr(buffer_.data() + kept, 0, got)) {
    end_ += got;
    corrupt("a zero byte, which text cannot contain",
            static_cast<std::size_t>(static_cast<const char*>(zero) - buffer_.data()));
  }
  end_ += got;
  high_byte_ = high_byte_ || mlx::data::has_high_byte({buffer_.data() + kept, got});
}

void Window::seek(std::uint64_t offset) {
  if (offset >= offset_ && offset - offset_ <= end_ - begin_) return skip(static_cast<std::size_t>(offset - offset_));
  begin_ = end_ = 0;
  next_read_ = kFirstBlock;
  offset_ = offset;
  ended_ = false;
}

void Window::corrupt(std::string_view why, std::size_t inside) const {
  const std::uint64_t line = lines_of(*source_, {offset_ + inside})[0];
  fail(ErrorKind::kCorrupt, "line {}: {}", line, why);
}

}  // namespace mlx::data
