// Encoding and strict decoding of the messages of mlx-format-wire(5).
#include "store/remote/wire.h"

#include <algorithm>

#include "base/text.h"

namespace mlx::store::wire {

namespace {

constexpr std::string_view kWireMagic = "MLXWIRE\n";
constexpr std::size_t kHelloFixed = 24, kMaxProgram = 256;
constexpr std::size_t kKeySize = 33, kMaxName = 64;

// The largest payload of each type; nullopt for an unknown type.
std::optional<std::size_t> max_payload(std::uint8_t type) {
  switch (static_cast<Type>(type)) {
    case Type::kHello:
      return kHelloFixed + 4 + kMaxProgram;
    case Type::kOpen:
      return 1 + 4 + kMaxText;
    case Type::kMissing:
    case Type::kGet:
      return 4 + kMaxListed * kKeySize;
    case Type::kIds:
      return 4 + kMaxListed * 32;
    case Type::kBitmap:
      return 4 + kMaxListed / 8;
    case Type::kPublish:
      return 2 * (4 + kMaxListed * 32);
    case Type::kRead:
      return 4 + kMaxName;
    case Type::kWrite:
      return 4 + kMaxName + 1 + 2 * (4 + kMaxFile);
    case Type::kFile:
      return 1 + 4 + kMaxFile;
    case Type::kPut:
    case Type::kStored:
    case Type::kEnd:
      return 8;
    case Type::kVerdict:
      return 1;
    case Type::kHeads:
    case Type::kOperations:
    case Type::kRepair:
      return 0;
    case Type::kRepaired:
      return 8 + 4 + kMaxPaths * (4 + kMaxText);
    case Type::kObject:
      return kMaxPayload;
    case Type::kError:
      return 1 + 2 * (4 + kMaxText);
  }
  return std::nullopt;
}

// The part of a payload that the frame's checksum covers.
ByteView covered(std::uint8_t type, ByteView payload) {
  if (static_cast<Type>(type) != Type::kObject || payload.size() < kEntryHeaderSize) return payload;
  const std::size_t extra = payload[6] | static_cast<std::size_t>(payload[7]) << 8;
  return payload.first(std::min(payload.size(), kEntryHeaderSize + extra));
}

void put_text(ByteWriter& out, ByteView text) {
  out.u32(static_cast<std::uint32_t>(text.size()));
  out.raw(text);
}

ByteView take_text(ByteReader& in, std::size_t limit) {
  const std::uint32_t size = in.u32();
  if (size > limit) in.corrupt("a text is too long");
  return in.take(size);
}

bool take_flag(ByteReader& in) {
  const std::uint8_t value = in.u8();
  if (value > 1) in.corrupt("neither 0 nor 1");
  return value == 1;
}

std::uint32_t take_count(ByteReader& in, std::size_t item_size) {
  const std::uint32_t count = in.u32();
  if (count > kMaxListed || count > in.left() / item_size) in.corrupt("a list is longer than it may be");
  return count;
}

void put_ids(ByteWriter& out, const Digest* ids, std::size_t count) {
  out.u32(static_cast<std::uint32_t>(count));
  for (std::size_t i = 0; i < count; ++i) out.raw(ids[i].bytes);
}

std::vector<Digest> take_ids(ByteReader& in) {
  std::vector<Digest> ids(take_count(in, 32));
  for (Digest& id : ids) id = Digest::from(in.take(32));
  return ids;
}

ObjectKind kind_of(ByteReader& in, std::uint8_t kind) {
  if (kind < static_cast<std::uint8_t>(ObjectKind::kChunk) || kind > static_cast<std::uint8_t>(ObjectKind::kOperation))
    in.corrupt("an unknown kind of object");
  return static_cast<ObjectKind>(kind);
}

std::optional<Bytes> take_file(ByteReader& in) {
  if (!take_flag(in)) return std::nullopt;
  const ByteView bytes = take_text(in, kMaxFile);
  return Bytes(bytes.begin(), bytes.end());
}

void put_file(ByteWriter& out, const std::optional<Bytes>& file) {
  out.u8(file ? 1 : 0);
  if (file) put_text(out, *file);
}

// At most `limit` bytes, cut between characters.
std::string cut(std::string_view text, std::size_t limit) {
  if (text.size() > limit) {
    while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xC0) == 0x80) --limit;
    text = text.substr(0, limit);
  }
  return printable(text);
}

}  // namespace

const FrameRules& frame_rules() {
  static constexpr FrameRules kRules{max_payload, covered};
  return kRules;
}

Bytes frame(Type type, ByteView payload) {
  return encode_frame(frame_rules(), static_cast<std::uint8_t>(type), payload);
}

ByteView FrameReader::peek_start() {
  return frames_.peek(kFrameHeaderSize + kWireMagic.size(), begins_hello);
}

Bytes encode(const Hello& hello) {
  ByteWriter out;
  out.raw(as_bytes(kWireMagic));
  out.u32(hello.lowest);
  out.u32(hello.highest);
  out.u8(kSha256Number);
  out.u8(hello.read_only ? 1 : 0);
  out.u16(0);
  out.u32(hello.window);
  put_text(out, as_bytes(cut(hello.program, kMaxProgram)));
  return out.take();
}

Hello decode_hello(ByteView payload) {
  ByteReader in(payload, "hello");
  if (as_text(in.take(kWireMagic.size())) != kWireMagic) in.corrupt("wrong magic");
  Hello hello;
  hello.lowest = in.u32();
  hello.highest = in.u32();
  if (hello.lowest > hello.highest || hello.lowest == 0) in.corrupt("versions that make no range");
  if (in.u8() != kSha256Number) in.corrupt("an unknown hash algorithm");
  hello.read_only = take_flag(in);
  if (in.u16() != 0) in.corrupt("reserved bytes are not 0");
  hello.window = in.u32();
  hello.program = printable(as_text(take_text(in, kMaxProgram)));
  // A later version may append more fields.
  if (hello.highest == kVersion) in.expect_end();
  return hello;
}

std::uint32_t common_version(const Hello& hello, const std::string& other) {
  if (hello.lowest <= kVersion && hello.highest >= kVersion) return kVersion;
  throw Error(ErrorKind::kMissing,
              fmt::format("{} speaks versions {} to {} of the protocol, this mlx {}", other, hello.lowest,
                          hello.highest, kVersion),
              hello.lowest > kVersion ? "upgrade this mlx" : "upgrade mlx there");
}

bool begins_hello(ByteView bytes) {
  constexpr std::size_t kType = 4;
  for (std::size_t i = 0; i < bytes.size() && i < kFrameHeaderSize + kWireMagic.size(); ++i) {
    if (i == 2 || i == 3 || (i > kType && i < 8)) {
      if (bytes[i] != 0) return false;
    } else if (i == kType) {
      if (bytes[i] != static_cast<std::uint8_t>(Type::kHello)) return false;
    } else if (i >= kFrameHeaderSize && bytes[i] != static_cast<std::uint8_t>(kWireMagic[i - kFrameHeaderSize])) {
      return false;
    }
  }
  return true;
}

Bytes encode(const Open& open) {
  ByteWriter out;
  out.u8(open.create ? 1 : 0);
  put_text(out, as_bytes(open.path));
  return out.take();
}

Open decode_open(ByteView payload) {
  ByteReader in(payload, "open");
  Open open;
  open.create = take_flag(in);
  open.path = as_text(take_text(in, kMaxText));
  if (open.path.find('\0') != std::string::npos) in.corrupt("a path with a zero byte");
  in.expect_end();
  return open;
}

Bytes encode_keys(const ObjectKey* keys, std::size_t count) {
  ByteWriter out;
  out.u32(static_cast<std::uint32_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    out.raw(keys[i].id.bytes);
    out.u8(static_cast<std::uint8_t>(keys[i].kind));
  }
  return out.take();
}

std::vector<ObjectKey> decode_keys(ByteView payload) {
  ByteReader in(payload, "list of keys");
  std::vector<ObjectKey> keys(take_count(in, kKeySize));
  for (ObjectKey& key : keys) {
    key.id = Digest::from(in.take(32));
    key.kind = kind_of(in, in.u8());
  }
  in.expect_end();
  return keys;
}

Bytes encode_ids(const Digest* ids, std::size_t count) {
  ByteWriter out;
  put_ids(out, ids, count);
  return out.take();
}

std::vector<Digest> decode_ids(ByteView payload) {
  ByteReader in(payload, "list of ids");
  std::vector<Digest> ids = take_ids(in);
  in.expect_end();
  return ids;
}

Bytes encode_bitmap(const std::vector<bool>& bits) {
  ByteWriter out;
  out.u32(static_cast<std::uint32_t>(bits.size()));
  Bytes packed((bits.size() + 7) / 8);
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (bits[i]) packed[i / 8] = static_cast<std::uint8_t>(packed[i / 8] | 1 << (i % 8));
  }
  out.raw(packed);
  return out.take();
}

std::vector<bool> decode_bitmap(ByteView payload) {
  ByteReader in(payload, "bitmap");
  const std::uint32_t count = in.u32();
  if (count > kMaxListed) in.corrupt("a list is longer than it may be");
  const ByteView packed = in.take((count + 7) / 8);
  in.expect_end();
  std::vector<bool> bits(count);
  for (std::size_t i = 0; i < count; ++i) bits[i] = (packed[i / 8] >> (i % 8) & 1) != 0;
  if (count % 8 != 0 && packed.back() >> (count % 8) != 0) in.corrupt("bits left over are not 0");
  return bits;
}

Bytes encode_count(std::uint64_t count) {
  ByteWriter out;
  out.u64(count);
  return out.take();
}

std::uint64_t decode_count(ByteView payload) {
  ByteReader in(payload, "count");
  const std::uint64_t count = in.u64();
  in.expect_end();
  return count;
}

Bytes encode_verdict(bool yes) {
  return {static_cast<std::uint8_t>(yes ? 1 : 0)};
}

bool decode_verdict(ByteView payload) {
  ByteReader in(payload, "verdict");
  const bool yes = take_flag(in);
  in.expect_end();
  return yes;
}

Bytes encode(const Publish& publish) {
  ByteWriter out;
  put_ids(out, publish.expected.data(), publish.expected.size());
  put_ids(out, publish.heads.data(), publish.heads.size());
  return out.take();
}

Publish decode_publish(ByteView payload) {
  ByteReader in(payload, "publish");
  Publish publish;
  publish.expected = take_ids(in);
  publish.heads = take_ids(in);
  in.expect_end();
  return publish;
}

void check_file_name(const std::string& name) {
  const bool plain =
      std::ranges::all_of(name, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
  if (name.empty() || name.size() > kMaxName || !plain)
    fail(ErrorKind::kCorrupt, "'{}' cannot name a file of a remote", printable(name));
}

Bytes encode_read(const std::string& name) {
  ByteWriter out;
  put_text(out, as_bytes(name));
  return out.take();
}

std::string decode_read(ByteView payload) {
  ByteReader in(payload, "read");
  std::string name(as_text(take_text(in, kMaxName)));
  in.expect_end();
  check_file_name(name);
  return name;
}

Bytes encode_file(const std::optional<Bytes>& file) {
  ByteWriter out;
  put_file(out, file);
  return out.take();
}

std::optional<Bytes> decode_file(ByteView payload) {
  ByteReader in(payload, "file");
  std::optional<Bytes> file = take_file(in);
  in.expect_end();
  return file;
}

Bytes encode(const Write& write) {
  ByteWriter out;
  put_text(out, as_bytes(write.name));
  put_file(out, write.expected);
  put_text(out, write.bytes);
  return out.take();
}

Write decode_write(ByteView payload) {
  ByteReader in(payload, "write");
  Write write;
  write.name = as_text(take_text(in, kMaxName));
  write.expected = take_file(in);
  const ByteView bytes = take_text(in, kMaxFile);
  write.bytes.assign(bytes.begin(), bytes.end());
  in.expect_end();
  check_file_name(write.name);
  return write;
}

Bytes encode(const Repaired& repaired) {
  const std::size_t named = std::min(repaired.paths.size(), kMaxPaths);
  ByteWriter out;
  out.u64(repaired.saved);
  out.u32(static_cast<std::uint32_t>(named));
  for (std::size_t i = 0; i < named; ++i) put_text(out, as_bytes(cut(repaired.paths[i], kMaxText)));
  return out.take();
}

Repaired decode_repaired(ByteView payload) {
  ByteReader in(payload, "repaired");
  Repaired repaired;
  repaired.saved = in.u64();
  const std::uint32_t count = in.u32();
  if (count > kMaxPaths) in.corrupt("a list is longer than it may be");
  for (std::uint32_t i = 0; i < count; ++i) repaired.paths.push_back(printable(as_text(take_text(in, kMaxText))));
  in.expect_end();
  return repaired;
}

Bytes object_frame(const StoredObject& object) {
  Bytes payload = entry_header(object);
  payload.reserve(payload.size() + object.extra.size() + object.stored.size());
  payload.insert(payload.end(), object.extra.begin(), object.extra.end());
  payload.insert(payload.end(), object.stored.begin(), object.stored.end());
  return frame(Type::kObject, payload);
}

StoredObject decode_object(ByteView payload) {
  ByteReader in(payload, "object");
  if (as_text(in.take(4)) != "MLXE") in.corrupt("wrong magic");
  StoredObject object;
  object.key.kind = kind_of(in, in.u8());
  const std::uint8_t encoding = in.u8();
  if (encoding > static_cast<std::uint8_t>(Encoding::kPlanes)) in.corrupt("an unknown encoding");
  object.encoding = static_cast<Encoding>(encoding);
  const std::uint16_t extra_size = in.u16();
  object.key_id = in.u32();
  const std::uint32_t stored_size = in.u32();
  object.plain_size = in.u32();
  if (object.plain_size > kMaxPlainSize || stored_size > kMaxStoredSize) in.corrupt("larger than an object may be");
  if (in.u32() != 0) in.corrupt("reserved bytes are not 0");
  object.checksum = in.u64();
  object.key.id = Digest::from(in.take(32));
  const ByteView extra = in.take(extra_size), stored = in.take(stored_size);
  in.expect_end();
  object.extra.assign(extra.begin(), extra.end());
  (void)base_of(object);  // refuses extra bytes that the encoding does not have
  object.stored.assign(stored.begin(), stored.end());
  if (stored_checksum(stored) != object.checksum) {
    fail(ErrorKind::kCorrupt, "object {}: stored bytes are damaged (checksum differs)", object.key.id.brief());
  }
  return object;
}

Bytes encode(const Error& error) {
  ByteWriter out;
  out.u8(static_cast<std::uint8_t>(error.kind));
  put_text(out, as_bytes(cut(error.message, kMaxText)));
  put_text(out, as_bytes(cut(error.hint, kMaxText)));
  return out.take();
}

Error decode_error(ByteView payload) {
  ByteReader in(payload, "error");
  const std::uint8_t kind = in.u8();
  std::string message = printable(as_text(take_text(in, kMaxText)));
  std::string hint = printable(as_text(take_text(in, kMaxText)));
  in.expect_end();
  const bool known = kind >= static_cast<int>(ErrorKind::kUsage) && kind <= static_cast<int>(ErrorKind::kMissing);
  return {known ? static_cast<ErrorKind>(kind) : ErrorKind::kIo, std::move(message), std::move(hint)};
}

}  // namespace mlx::store::wire
