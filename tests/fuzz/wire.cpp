// The wire protocol: every decoder on its own, a stream of frames, and the client against a server that says what the
// input says. Frames get right checksums, so that what is in them is reached.
#include <algorithm>

#include "fuzz.h"
#include "store/remote/wire.h"
#include "store/remote/wire_remote.h"

using namespace mlx;
using namespace mlx::store;
using namespace mlx::store::wire;

namespace {

template <typename Decode>
void one_encoding(ByteView payload, const Decode& decode_and_encode) {
  fuzz::errors_are_fine([&] {
    const Bytes again = decode_and_encode(payload);
    fuzz::require(std::equal(again.begin(), again.end(), payload.begin(), payload.end()), "messages have one encoding");
  });
}

void decode_all(ByteView payload) {
  fuzz::errors_are_fine(
      [&] { (void)decode_frame_header(frame_rules(), payload.first(std::min(payload.size(), kFrameHeaderSize))); });
  fuzz::errors_are_fine([&] { (void)common_version(decode_hello(payload), "there"); });
  fuzz::errors_are_fine([&] { (void)decode_error(payload); });
  fuzz::errors_are_fine([&] { (void)decode_object(payload); });
  (void)begins_hello(payload);
  one_encoding(payload, [](ByteView bytes) { return encode(decode_open(bytes)); });
  one_encoding(payload, [](ByteView bytes) {
    const auto keys = decode_keys(bytes);
    return encode_keys(keys.data(), keys.size());
  });
  one_encoding(payload, [](ByteView bytes) {
    const auto ids = decode_ids(bytes);
    return encode_ids(ids.data(), ids.size());
  });
  one_encoding(payload, [](ByteView bytes) { return encode_bitmap(decode_bitmap(bytes)); });
  one_encoding(payload, [](ByteView bytes) { return encode_count(decode_count(bytes)); });
  one_encoding(payload, [](ByteView bytes) { return encode_verdict(decode_verdict(bytes)); });
  one_encoding(payload, [](ByteView bytes) { return encode(decode_publish(bytes)); });
  one_encoding(payload, [](ByteView bytes) { return encode_read(decode_read(bytes)); });
  one_encoding(payload, [](ByteView bytes) { return encode_file(decode_file(bytes)); });
  one_encoding(payload, [](ByteView bytes) { return encode(decode_write(bytes)); });
}

// Frames as the input describes them: a type, a length of two bytes, a payload. An object gets the checksum of its
// bytes.
Bytes frames_of(fuzz::Input input) {
  Bytes stream;
  while (!input.empty()) {
    const auto type = static_cast<Type>(input.byte());
    const std::size_t size = input.byte() << 8 | input.byte();
    const ByteView taken = input.take(size);
    Bytes payload(taken.begin(), taken.end());
    if (type == Type::kObject && payload.size() >= kEntryHeaderSize) {
      ByteWriter checksum;
      checksum.u64(stored_checksum(ByteView(payload).subspan(kEntryHeaderSize)));
      std::copy(checksum.bytes().begin(), checksum.bytes().end(), payload.begin() + 24);
    }
    const Bytes whole = frame(type, payload);
    stream.insert(stream.end(), whole.begin(), whole.end());
  }
  return stream;
}

class Canned final : public Transport {
 public:
  explicit Canned(Bytes says) : says_(std::move(says)) {}
  bool write(ByteView) override { return true; }
  std::size_t read(void* data, std::size_t count) override {
    const std::size_t got = std::min(count, says_.size() - at_);
    std::copy_n(says_.begin() + static_cast<std::ptrdiff_t>(at_), got, static_cast<std::uint8_t*>(data));
    at_ += got;
    return got;
  }
  Error ended() override { return {ErrorKind::kNotFound, "the end"}; }

 private:
  Bytes says_;
  std::size_t at_ = 0;
};

void ask(std::uint8_t question, const Bytes& answer) {
  static Pool pool(1);
  RemoteSide side;
  side.where = "there";
  side.connect = [&] {
    Bytes says = frame(Type::kHello, encode(Hello{}));
    const Bytes verdict = frame(Type::kVerdict, encode_verdict(true));
    says.insert(says.end(), verdict.begin(), verdict.end());
    says.insert(says.end(), answer.begin(), answer.end());
    return std::make_unique<Canned>(std::move(says));
  };
  const ObjectKey key{Digest::of("asked for"), ObjectKind::kChunk};
  NoProgress progress;
  // What the other side reports may be of any kind that error frames have, also that it could not read or write.
  try {
    const std::unique_ptr<Remote> remote = open_wire_remote(side, pool);
    switch (question % 7) {
      case 0:
        (void)remote->heads();
        break;
      case 1:
        (void)remote->operations();
        break;
      case 2:
        fuzz::require(remote->missing({key, key}).size() <= 1, "doubles are named once");
        break;
      case 3:
        remote->receive(
            {key}, [&](StoredObject&& got) { fuzz::require(got.key == key, "what was asked for"); }, progress);
        break;
      case 4:
        (void)remote->publish_heads({}, {key.id});
        break;
      case 5:
        (void)remote->read_file("keys");
        break;
      default:
        (void)remote->write_file("keys", std::nullopt, {});
    }
  } catch (const Error& error) {
    fuzz::require(error.kind != ErrorKind::kInterrupted, "only we say that we were interrupted");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::Input input(data, size);
  const std::uint8_t question = input.byte();
  if (question < 128) {
    decode_all(input.rest());
    return 0;
  }
  ask(question, frames_of(input));
  return 0;
}
