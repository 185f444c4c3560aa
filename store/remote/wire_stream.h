// Frames of mlx-format-wire(5) over something that bytes go into and come out of. Used by both ends.
#pragma once

#include <functional>
#include <mutex>
#include <optional>

#include "store/remote/wire.h"

namespace mlx::store::wire {

using ReadSome = std::function<std::size_t(void* data, std::size_t count)>;  // at least one byte; 0 at the end
using WriteAll = std::function<void(ByteView bytes)>;                        // throws where they do not all go

struct Frame {
  Type type = Type::kEnd;
  Bytes payload;
};

// One thread at a time. Memory grows with what has arrived, not with what a header claims.
class FrameReader {
 public:
  explicit FrameReader(ReadSome read) : read_(std::move(read)) {}
  // The next frame, its checksum verified; nothing where the stream ends between two frames. kIo where it ends in one,
  // kCorrupt for what is no frame.
  std::optional<Frame> next();
  // The first bytes of the stream, as many as begin a hello or as there are; they are still read by next().
  ByteView peek_start();

 private:
  bool fill(std::size_t count);  // true where `count` bytes are in the buffer; else the stream has ended
  ReadSome read_;
  Bytes buffer_;
  std::size_t begin_ = 0, end_ = 0;
};

// Thread-safe: each frame goes out whole. What is put waits until flush(), or until there is enough of it.
class FrameWriter {
 public:
  explicit FrameWriter(WriteAll write) : write_(std::move(write)) {}
  void put(Type type, ByteView payload = {}) { put_frame(frame(type, payload)); }
  void put_frame(ByteView whole);
  void flush();

 private:
  void write_out();  // with mutex_ held
  WriteAll write_;
  std::mutex mutex_;
  Bytes waiting_;
};

}  // namespace mlx::store::wire
