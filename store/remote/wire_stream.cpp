// Small frames are read and written many at once; the bytes of large ones are copied once.
#include "store/remote/wire_stream.h"

#include <algorithm>
#include <cstring>

namespace mlx::store::wire {

namespace {
constexpr std::size_t kBuffer = std::size_t{256} << 10;
constexpr std::size_t kStep = std::size_t{4} << 20;  // by which a large payload's memory grows
constexpr std::size_t kStart = 24;                   // a frame's header and the magic of a hello
}  // namespace

bool FrameReader::fill(std::size_t count) {
  if (buffer_.empty()) buffer_.resize(kBuffer);
  if (end_ - begin_ < count && begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  while (end_ - begin_ < count) {
    const std::size_t got = read_(buffer_.data() + end_, buffer_.size() - end_);
    if (got == 0) return false;
    end_ += got;
  }
  return true;
}

std::optional<Frame> FrameReader::next() {
  if (!fill(kFrameHeaderSize)) {
    if (begin_ == end_) return std::nullopt;
    fail(ErrorKind::kIo, "frame: the connection ended in the middle of one");
  }
  const FrameHeader header = decode_frame_header(ByteView(buffer_).subspan(begin_, kFrameHeaderSize));
  begin_ += kFrameHeaderSize;
  Frame frame{header.type, {}};
  std::size_t have = std::min<std::size_t>(header.size, end_ - begin_);
  frame.payload.assign(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
                       buffer_.begin() + static_cast<std::ptrdiff_t>(begin_ + have));
  begin_ += have;
  while (have < header.size) {
    if (have == frame.payload.size()) frame.payload.resize(std::min<std::size_t>(header.size, have + kStep));
    const std::size_t got = read_(frame.payload.data() + have, frame.payload.size() - have);
    if (got == 0) fail(ErrorKind::kIo, "frame: the connection ended in the middle of one");
    have += got;
  }
  check_payload(header, frame.payload);
  return frame;
}

ByteView FrameReader::peek_start() {
  for (std::size_t count = 1; count <= kStart && fill(count); count = end_ - begin_ + 1) {
    if (!begins_hello(ByteView(buffer_).subspan(begin_, end_ - begin_))) break;
  }
  return ByteView(buffer_).subspan(begin_, end_ - begin_);
}

void FrameWriter::put_frame(ByteView whole) {
  const std::lock_guard lock(mutex_);
  waiting_.insert(waiting_.end(), whole.begin(), whole.end());
  if (waiting_.size() >= kBuffer) write_out();
}

void FrameWriter::flush() {
  const std::lock_guard lock(mutex_);
  write_out();
}

void FrameWriter::write_out() {
  const Bytes bytes = std::exchange(waiting_, {});
  if (!bytes.empty()) write_(bytes);
}

}  // namespace mlx::store::wire
