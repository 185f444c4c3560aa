// What a client and `mlx serve-store` say to each other (mlx-format-wire(5)) as pure functions between messages and
// bytes, and its frames over any stream. Used by the SSH remote, the server and the fuzz targets.
//
// Decoders take a whole payload and are strict: what does not fit is kCorrupt, and memory stays within a multiple of
// the payload's own size.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/frames.h"
#include "store/format/pack_format.h"

namespace mlx::store::wire {

inline constexpr std::uint32_t kVersion = 2;
inline constexpr std::size_t kMaxStoredSize = kMaxPlainSize + kMaxPlainSize / 8;
inline constexpr std::size_t kMaxPayload = kEntryHeaderSize + 65535 + kMaxStoredSize;
inline constexpr std::size_t kMaxListed = 65536;  // keys or ids in one frame
inline constexpr std::size_t kMaxText = 4096;     // an error's texts, a path
inline constexpr std::size_t kMaxFile = std::size_t{1} << 20;
inline constexpr std::size_t kMaxPaths = 1024;  // of packs that one repair names

enum class Type : std::uint8_t {
  kHello = 1,
  kOpen = 16,
  kHeads = 17,
  kOperations = 18,
  kMissing = 19,
  kGet = 20,
  kPut = 21,
  kPublish = 22,
  kRead = 23,
  kWrite = 24,
  kRepair = 25,
  kObject = 32,
  kIds = 33,
  kBitmap = 34,
  kFile = 35,
  kVerdict = 36,
  kStored = 37,
  kEnd = 38,
  kRepaired = 39,
  kError = 48,
};

const FrameRules& frame_rules();
// A whole frame.
Bytes frame(Type type, ByteView payload = {});

struct Frame {
  Type type = Type::kEnd;
  Bytes payload;
};

class FrameReader {
 public:
  explicit FrameReader(ReadSome read) : frames_(frame_rules(), std::move(read)) {}
  std::optional<Frame> next() {  // as RawFrameReader::next
    std::optional<RawFrame> raw = frames_.next();
    if (!raw) return std::nullopt;
    return Frame{static_cast<Type>(raw->type), std::move(raw->payload)};
  }
  // The first bytes of the stream: as many as may begin a hello. next() still reads them.
  ByteView peek_start();

 private:
  RawFrameReader frames_;
};

class FrameWriter {
 public:
  explicit FrameWriter(WriteAll write) : frames_(std::move(write)) {}
  void put(Type type, ByteView payload = {}) { frames_.put(frame(type, payload)); }
  void put_frame(ByteView whole) { frames_.put(whole); }
  void flush() { frames_.flush(); }

 private:
  RawFrameWriter frames_;
};

struct Hello {
  std::uint32_t lowest = kVersion, highest = kVersion;
  bool read_only = false;
  std::uint32_t window = 0;
  std::string program;
};
Bytes encode(const Hello& hello);
Hello decode_hello(ByteView payload);
// The protocol version that both speak; kMissing if there is none. `other` names the sender of the hello.
std::uint32_t common_version(const Hello& hello, const std::string& other);
// True if the bytes are the start of a hello frame, or can still become one: tells a shell's greeting from the
// protocol.
bool begins_hello(ByteView bytes);

struct Open {
  bool create = false;
  std::string path;
};
Bytes encode(const Open& open);
Open decode_open(ByteView payload);

Bytes encode_keys(const ObjectKey* keys, std::size_t count);
std::vector<ObjectKey> decode_keys(ByteView payload);

Bytes encode_ids(const Digest* ids, std::size_t count);
std::vector<Digest> decode_ids(ByteView payload);

Bytes encode_bitmap(const std::vector<bool>& bits);
std::vector<bool> decode_bitmap(ByteView payload);

Bytes encode_count(std::uint64_t count);  // put, stored, end
std::uint64_t decode_count(ByteView payload);

Bytes encode_verdict(bool yes);
bool decode_verdict(ByteView payload);

struct Publish {
  std::vector<Digest> expected, heads;
};
Bytes encode(const Publish& publish);
Publish decode_publish(ByteView payload);

// kCorrupt if it is not 1 to 64 lower-case letters, digits and hyphens.
void check_file_name(const std::string& name);
Bytes encode_read(const std::string& name);
std::string decode_read(ByteView payload);
Bytes encode_file(const std::optional<Bytes>& file);
std::optional<Bytes> decode_file(ByteView payload);

struct Write {
  std::string name;
  std::optional<Bytes> expected;
  Bytes bytes;
};
Bytes encode(const Write& write);
Write decode_write(ByteView payload);

struct Repaired {
  std::uint64_t saved = 0;  // objects that were copied out of damaged packs
  // Paths of these packs there, and names of small files that were written again; at most kMaxPaths are named.
  std::vector<std::string> paths;
};
Bytes encode(const Repaired& repaired);
Repaired decode_repaired(ByteView payload);

// The frame of an object. The checksum of the stored bytes goes along; receivers verify it.
Bytes object_frame(const StoredObject& object);
// Verifies the checksum of the stored bytes.
StoredObject decode_object(ByteView payload);

// Encoding cuts texts to what fits and makes them UTF-8. Decoding turns unknown kinds into kIo and control characters
// into '?', since the text goes to a terminal.
Bytes encode(const Error& error);
Error decode_error(ByteView payload);

}  // namespace mlx::store::wire
