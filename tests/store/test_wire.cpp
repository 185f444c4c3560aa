// Messages of the wire protocol: each decodes to what was encoded, and any wrong bit or byte is an error; a reader
// takes no more memory than what has arrived.
#include <algorithm>

#include "fixture.h"
#include "store/format/codec.h"
#include "store/remote/wire.h"

using namespace mlx;
using namespace mlx::store;
using namespace mlx::store::wire;

namespace {

// A stream of bytes that come in pieces.
ReadSome in_pieces(const Bytes& bytes, std::size_t piece) {
  return [&bytes, piece, at = std::size_t{0}](void* data, std::size_t count) mutable {
    const std::size_t got = std::min({count, piece, bytes.size() - at});
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), got, static_cast<std::uint8_t*>(data));
    at += got;
    return got;
  };
}

// Any change of one byte, any cut and any byte more is refused.
void check_strict(const Bytes& payload, const std::function<void(ByteView)>& decode) {
  CHECK_FALSE(error_of([&] { decode(payload); }));
  for (std::size_t size = 0; size < payload.size(); ++size) {
    CAPTURE(size);
    CHECK(error_of([&] { decode(ByteView(payload).first(size)); }) == ErrorKind::kCorrupt);
  }
  Bytes longer = payload;
  longer.push_back(0);
  CHECK(error_of([&] { decode(longer); }) == ErrorKind::kCorrupt);
}

StoredObject chunk(ByteView bytes) {
  return Codec().encode({Digest::of(bytes), ObjectKind::kChunk}, Digest::of(bytes), bytes);
}

}  // namespace

TEST_CASE("wire messages decode to what was encoded") {
  Hello hello;
  hello.read_only = true;
  hello.window = 12345;
  hello.program = "mlx 1.2";
  const Hello greeted = decode_hello(encode(hello));
  CHECK(greeted.read_only);
  CHECK_EQ(greeted.window, 12345u);
  CHECK_EQ(greeted.program, "mlx 1.2");
  CHECK(decode_open(encode(Open{true, "/a b/c"})).path == "/a b/c");
  CHECK(decode_open(encode(Open{true, "x"})).create);

  const std::vector<ObjectKey> keys{{Digest::of("a"), ObjectKind::kChunk}, {Digest::of("b"), ObjectKind::kOperation}};
  CHECK(decode_keys(encode_keys(keys.data(), 2)) == keys);
  const std::vector<Digest> ids{Digest::of("a"), Digest::of("b")};
  CHECK(decode_ids(encode_ids(ids.data(), 2)) == ids);
  for (const std::size_t size : {0, 1, 7, 8, 9, 1000}) {
    std::vector<bool> bits(size);
    for (std::size_t i = 0; i < size; ++i) bits[i] = i % 3 == 0;
    CHECK(decode_bitmap(encode_bitmap(bits)) == bits);
  }
  const Publish publish = decode_publish(encode(Publish{{ids[0]}, ids}));
  CHECK(publish.expected == std::vector<Digest>{ids[0]});
  CHECK(publish.heads == ids);
  CHECK(decode_read(encode_read("keys")) == "keys");
  CHECK_FALSE(decode_file(encode_file(std::nullopt)));
  CHECK(decode_file(encode_file(Bytes{})) == Bytes{});
  const Write write = decode_write(encode(Write{"keys", to_bytes("old"), to_bytes("new")}));
  CHECK(write.expected == to_bytes("old"));
  CHECK(write.bytes == to_bytes("new"));
  CHECK_FALSE(decode_write(encode(Write{"keys", std::nullopt, {}})).expected);

  const StoredObject object = chunk(text_bytes(5000, 1));
  const Bytes whole = object_frame(object);
  const StoredObject back = decode_object(ByteView(whole).subspan(kFrameHeaderSize));
  CHECK(back.key == object.key);
  CHECK(back.stored == object.stored);
}

TEST_CASE("wire messages that are cut or longer than they say are refused") {
  const std::vector<ObjectKey> keys{{Digest::of("a"), ObjectKind::kChunk}};
  const std::vector<Digest> ids{Digest::of("a")};
  check_strict(encode(Hello{}), [](ByteView bytes) { (void)decode_hello(bytes); });
  check_strict(encode(Open{true, "path"}), [](ByteView bytes) { (void)decode_open(bytes); });
  check_strict(encode_keys(keys.data(), 1), [](ByteView bytes) { (void)decode_keys(bytes); });
  check_strict(encode_ids(ids.data(), 1), [](ByteView bytes) { (void)decode_ids(bytes); });
  check_strict(encode_bitmap({true, false, true}), [](ByteView bytes) { (void)decode_bitmap(bytes); });
  check_strict(encode_count(7), [](ByteView bytes) { (void)decode_count(bytes); });
  check_strict(encode_verdict(true), [](ByteView bytes) { (void)decode_verdict(bytes); });
  check_strict(encode(Publish{ids, ids}), [](ByteView bytes) { (void)decode_publish(bytes); });
  check_strict(encode_read("keys"), [](ByteView bytes) { (void)decode_read(bytes); });
  check_strict(encode_file(to_bytes("x")), [](ByteView bytes) { (void)decode_file(bytes); });
  check_strict(encode(Write{"keys", to_bytes("a"), to_bytes("b")}), [](ByteView bytes) { (void)decode_write(bytes); });
  check_strict(encode(Error(ErrorKind::kIo, "m", "h")), [](ByteView bytes) { (void)decode_error(bytes); });
  const Bytes object = object_frame(chunk(text_bytes(300, 1)));
  check_strict(Bytes(object.begin() + kFrameHeaderSize, object.end()),
               [](ByteView bytes) { (void)decode_object(bytes); });
}

TEST_CASE("wire messages with values that nothing has are refused") {
  const auto refused = [](const std::function<void()>& body) { return error_of(body) == ErrorKind::kCorrupt; };
  Bytes keys = encode_keys(nullptr, 0);
  keys[3] = 0x7f;  // a list of two thousand million keys
  CHECK(refused([&] { (void)decode_keys(keys); }));
  CHECK(refused([&] { (void)decode_ids(keys); }));
  CHECK(refused([&] { (void)decode_bitmap(keys); }));
  Bytes bits = encode_bitmap({true});
  bits.back() = 3;
  CHECK(refused([&] { (void)decode_bitmap(bits); }));
  CHECK(refused([&] { (void)decode_verdict(Bytes{2}); }));
  CHECK(refused([&] { (void)decode_open(encode(Open{false, std::string("a\0b", 3)})); }));
  for (const char* name : {"", "../heads", "a/b", "Keys", "a.b", "heads\n"})
    CHECK(refused([&] { (void)decode_read(encode_read(name)); }));
  CHECK(refused([&] { (void)decode_read(encode_read(std::string(65, 'a'))); }));
  Hello hello;
  hello.lowest = 0;
  CHECK(refused([&] { (void)decode_hello(encode(hello)); }));

  const Bytes frame_bytes = object_frame(chunk(random_bytes(300, 1)));
  const Bytes object(frame_bytes.begin() + kFrameHeaderSize, frame_bytes.end());
  const auto with = [&](std::size_t at, std::uint8_t value) {
    Bytes changed = object;
    changed[at] = value;
    return refused([&] { (void)decode_object(changed); });
  };
  CHECK(with(0, 'X'));                                         // magic
  CHECK(with(4, 0));                                           // kind
  CHECK(with(4, 6));                                           // kind
  CHECK(with(5, 4));                                           // encoding
  CHECK(with(5, 2));                                           // a delta without its base
  CHECK(with(6, 1));                                           // extra bytes
  CHECK(with(19, 0xff));                                       // plain size
  CHECK(with(20, 1));                                          // reserved
  CHECK(with(24, static_cast<std::uint8_t>(object[24] ^ 1)));  // checksum
  CHECK(with(100, static_cast<std::uint8_t>(object[100] ^ 1)));
}

TEST_CASE("a later version is understood as far as it can be, and refused by name") {
  Hello later;
  later.highest = 3;
  Bytes payload = encode(later);
  payload.push_back(1);  // a field of version 3
  CHECK_EQ(common_version(decode_hello(payload), "host"), kVersion);
  later.lowest = 3;
  CHECK(error_of([&] { (void)common_version(later, "host"); }) == ErrorKind::kMissing);
}

TEST_CASE("texts of errors cannot steer a terminal") {
  const Error bad = decode_error(encode(Error(ErrorKind::kRefused,
                                              "a\x1b[2Jb\nc\xc2\x9b"
                                              "d \xc3\xa4",
                                              "\xff")));
  CHECK_EQ(bad.message, "a?[2Jb c?d \xc3\xa4");
  CHECK_EQ(bad.hint, "?");
  CHECK(bad.kind == ErrorKind::kRefused);
  ByteWriter out;  // as another program would send it
  out.u8(130);
  out.u32(1);
  out.raw(as_bytes("\x1b"));
  out.u32(0);
  const Error strange = decode_error(out.bytes());
  CHECK(strange.kind == ErrorKind::kIo);
  CHECK_EQ(strange.message, "?");
  const Error long_one = decode_error(encode(Error(ErrorKind::kIo, std::string(5000, 'x') + "\xc3\xa4")));
  CHECK_EQ(long_one.message.size(), kMaxText);
}

TEST_CASE("frames are read whatever pieces they come in") {
  Bytes stream;
  const auto add = [&](const Bytes& bytes) { stream.insert(stream.end(), bytes.begin(), bytes.end()); };
  add(frame(Type::kHeads));
  add(object_frame(chunk(random_bytes(600'000, 1))));
  for (int i = 0; i < 100; ++i) add(frame(Type::kEnd, encode_count(static_cast<std::uint64_t>(i))));
  for (const std::size_t piece : {std::size_t{1}, std::size_t{13}, std::size_t{70'000}, stream.size()}) {
    CAPTURE(piece);
    FrameReader reader(in_pieces(stream, piece));
    CHECK(reader.next()->type == Type::kHeads);
    CHECK(decode_object(reader.next()->payload).plain_size == 600'000);
    for (int i = 0; i < 100; ++i) CHECK(decode_count(reader.next()->payload) == static_cast<std::uint64_t>(i));
    CHECK_FALSE(reader.next());
  }
}

TEST_CASE("every flipped bit and every cut in a frame is found") {
  const Bytes whole = object_frame(chunk(random_bytes(50, 1)));
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    CAPTURE(bit);
    Bytes flipped = whole;
    flipped[bit / 8] = static_cast<std::uint8_t>(flipped[bit / 8] ^ 1 << (bit % 8));
    FrameReader reader(in_pieces(flipped, 1000));
    const auto kind = error_of([&] { (void)decode_object(reader.next()->payload); });
    const bool found = kind == ErrorKind::kCorrupt || kind == ErrorKind::kIo;  // a longer frame ends too soon
    CHECK(found);
  }
  for (std::size_t size = 1; size < whole.size(); ++size) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    FrameReader reader(in_pieces(cut, 1000));
    CHECK(error_of([&] { (void)reader.next(); }) == ErrorKind::kIo);
  }
}

TEST_CASE("a frame that claims to be huge takes memory only as it arrives") {
  Bytes header = frame(Type::kObject, Bytes(100));
  header[3] = 0x04;  // 64 MiB and some
  FrameReader reader(in_pieces(header, 1000));
  CHECK(error_of([&] { (void)reader.next(); }) == ErrorKind::kIo);
  header[3] = 0x7f;
  FrameReader larger(in_pieces(header, 1000));
  CHECK(error_of([&] { (void)larger.next(); }) == ErrorKind::kCorrupt);
  Bytes small = frame(Type::kVerdict, Bytes(1));
  small[0] = 9;  // no verdict is that long
  FrameReader verdict(in_pieces(small, 1000));
  CHECK(error_of([&] { (void)verdict.next(); }) == ErrorKind::kCorrupt);
}

TEST_CASE("a greeting of a shell is not taken for the protocol") {
  CHECK(begins_hello({}));
  CHECK(begins_hello(frame(Type::kHello, encode(Hello{}))));
  CHECK_FALSE(begins_hello(as_bytes("Welcome to this machine")));
  CHECK_FALSE(begins_hello(as_bytes("bash: mlx: not found")));
  const Bytes text = to_bytes("Last login: yesterday\n");
  FrameReader reader(in_pieces(text, 1));
  CHECK_FALSE(begins_hello(reader.peek_start()));
}
