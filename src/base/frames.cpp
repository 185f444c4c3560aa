// Small frames are read and written many at once; the bytes of large ones are copied once.
#include "base/frames.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/hash.h"

namespace mlx {

namespace {
constexpr std::size_t kBuffer = std::size_t{256} << 10;
constexpr std::size_t kStep = std::size_t{4} << 20;  // by which a large payload's memory grows

std::uint64_t checksum_of(const FrameRules& rules, std::uint8_t type, ByteView payload) {
  const Digest digest = Digest::of(rules.covered ? rules.covered(type, payload) : payload);
  return ByteReader(digest.bytes).u64();
}

}  // namespace

RawFrameHeader decode_frame_header(const FrameRules& rules, ByteView header) {
  ByteReader in(header, "frame");
  RawFrameHeader result;
  result.size = in.u32();
  result.type = in.u8();
  const std::optional<std::size_t> limit = rules.max_payload(result.type);
  if (!limit) in.corrupt(fmt::format("an unknown type {}", result.type));
  if (result.size > *limit)
    in.corrupt(fmt::format("{} bytes, more than one of type {} may have", result.size, result.type));
  for (const std::uint8_t byte : in.take(3)) {
    if (byte != 0) in.corrupt("reserved bytes are not 0");
  }
  result.checksum = in.u64();
  in.expect_end();
  return result;
}

void check_payload(const FrameRules& rules, const RawFrameHeader& header, ByteView payload) {
  if (checksum_of(rules, header.type, payload) != header.checksum)
    fail(ErrorKind::kCorrupt, "frame: damaged on the way (checksum differs)");
}

Bytes encode_frame(const FrameRules& rules, std::uint8_t type, ByteView payload) {
  ByteWriter out(kFrameHeaderSize + payload.size());
  out.u32(static_cast<std::uint32_t>(payload.size()));
  out.u8(type);
  out.raw(Bytes(3));
  out.u64(checksum_of(rules, type, payload));
  out.raw(payload);
  return out.take();
}

bool RawFrameReader::fill(std::size_t count) {
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

std::optional<RawFrame> RawFrameReader::next() {
  if (!fill(kFrameHeaderSize)) {
    if (begin_ == end_) return std::nullopt;
    fail(ErrorKind::kIo, "frame: the connection ended in the middle of one");
  }
  const RawFrameHeader header = decode_frame_header(rules_, ByteView(buffer_).subspan(begin_, kFrameHeaderSize));
  begin_ += kFrameHeaderSize;
  RawFrame frame{header.type, {}};
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
  check_payload(rules_, header, frame.payload);
  return frame;
}

ByteView RawFrameReader::peek(std::size_t most, bool (*accepts)(ByteView start)) {
  for (std::size_t count = 1; count <= most && fill(count); count = end_ - begin_ + 1) {
    if (!accepts(ByteView(buffer_).subspan(begin_, end_ - begin_))) break;
  }
  return ByteView(buffer_).subspan(begin_, end_ - begin_);
}

void RawFrameWriter::put(ByteView whole) {
  const std::lock_guard lock(mutex_);
  waiting_.insert(waiting_.end(), whole.begin(), whole.end());
  if (waiting_.size() >= kBuffer) write_out();
}

void RawFrameWriter::flush() {
  const std::lock_guard lock(mutex_);
  write_out();
}

void RawFrameWriter::write_out() {
  const Bytes bytes = std::exchange(waiting_, {});
  if (!bytes.empty()) write_(bytes);
}

}  // namespace mlx
