// Length-prefixed, checksummed frames over any stream of bytes: the framing of mlx-format-wire(5), and of other
// conversations over pipes and sockets. A protocol says which types of frames it has, and how large each may be.
//
// A frame is size (u32), type (u8), three zero bytes, checksum (u64: the first eight bytes of the SHA-256 of what it
// covers), then the payload. All little-endian.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>

#include "base/bytes.h"

namespace mlx {

inline constexpr std::size_t kFrameHeaderSize = 16;

struct FrameRules {
  std::optional<std::size_t> (*max_payload)(std::uint8_t type) = nullptr;  // nullopt: no such type
  // The part of a payload that the checksum covers; null: all of it.
  ByteView (*covered)(std::uint8_t type, ByteView payload) = nullptr;
};

struct RawFrame {
  std::uint8_t type = 0;
  Bytes payload;
};

struct RawFrameHeader {
  std::uint8_t type = 0;
  std::uint32_t size = 0;
  std::uint64_t checksum = 0;
};
// kCorrupt for an unknown type, reserved bytes or a size that no frame of this type has.
RawFrameHeader decode_frame_header(const FrameRules& rules, ByteView header);
// kCorrupt if the payload is not the one that the header announces.
void check_payload(const FrameRules& rules, const RawFrameHeader& header, ByteView payload);
// A whole frame.
Bytes encode_frame(const FrameRules& rules, std::uint8_t type, ByteView payload);

using ReadSome = std::function<std::size_t(void* data, std::size_t count)>;  // at least one byte; 0 at the end
using WriteAll = std::function<void(ByteView bytes)>;                        // throws if it cannot write them all

// One thread at a time. Memory grows with what has arrived, not with what a header claims.
class RawFrameReader {
 public:
  RawFrameReader(const FrameRules& rules, ReadSome read) : rules_(rules), read_(std::move(read)) {}
  // The next frame, its checksum verified; nullopt if the stream ends between two frames. kIo if it ends inside one,
  // kCorrupt for what is no frame.
  std::optional<RawFrame> next();
  // The first bytes of the stream: as many as `accepts` takes, up to `most`. next() still reads them.
  ByteView peek(std::size_t most, bool (*accepts)(ByteView start));

 private:
  bool fill(std::size_t count);  // false if the stream ends before `count` bytes are in the buffer
  const FrameRules& rules_;
  ReadSome read_;
  Bytes buffer_;
  std::size_t begin_ = 0, end_ = 0;
};

// Thread-safe: each frame goes out whole. Frames wait until flush(), or until there is enough of them.
class RawFrameWriter {
 public:
  explicit RawFrameWriter(WriteAll write) : write_(std::move(write)) {}
  void put(ByteView whole_frame);
  void flush();

 private:
  void write_out();  // with mutex_ held
  WriteAll write_;
  std::mutex mutex_;
  Bytes waiting_;
};

}  // namespace mlx
