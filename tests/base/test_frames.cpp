// Frames of a made-up protocol; those of the wire protocol are tested with it.
#include <doctest/doctest.h>

#include <algorithm>

#include "base/frames.h"
#include "throws.h"

using namespace mlx;

namespace {

std::optional<std::size_t> max_payload(std::uint8_t type) {
  return type == 7 ? std::optional<std::size_t>(1000) : std::nullopt;
}
constexpr FrameRules kRules{max_payload};

ReadSome in_pieces(const Bytes& bytes, std::size_t piece) {
  return [&bytes, piece, at = std::size_t{0}](void* data, std::size_t count) mutable {
    const std::size_t got = std::min({count, piece, bytes.size() - at});
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), got, static_cast<std::uint8_t*>(data));
    at += got;
    return got;
  };
}

}  // namespace

TEST_CASE("frames of any protocol come back as they were written") {
  Bytes stream;
  RawFrameWriter writer([&](ByteView bytes) { stream.insert(stream.end(), bytes.begin(), bytes.end()); });
  writer.put(encode_frame(kRules, 7, to_bytes("first")));
  writer.put(encode_frame(kRules, 7, {}));
  CHECK(stream.empty());
  writer.flush();
  for (const std::size_t piece : {std::size_t{1}, stream.size()}) {
    CAPTURE(piece);
    RawFrameReader reader(kRules, in_pieces(stream, piece));
    CHECK(as_text(reader.next()->payload) == "first");
    CHECK(reader.next()->payload.empty());
    CHECK_FALSE(reader.next());
  }
}

TEST_CASE("frames of an unknown type, too large or damaged are refused") {
  Bytes other = encode_frame(kRules, 7, to_bytes("x"));
  other[4] = 8;
  RawFrameReader unknown(kRules, in_pieces(other, 100));
  CHECK(error_of([&] { (void)unknown.next(); }).kind == ErrorKind::kCorrupt);
  Bytes large = encode_frame(kRules, 7, to_bytes("x"));
  large[1] = 4;  // 1025 bytes
  RawFrameReader too_large(kRules, in_pieces(large, 100));
  CHECK(error_of([&] { (void)too_large.next(); }).kind == ErrorKind::kCorrupt);
  Bytes damaged = encode_frame(kRules, 7, to_bytes("x"));
  damaged.back() ^= 1;
  RawFrameReader wrong(kRules, in_pieces(damaged, 100));
  CHECK(error_of([&] { (void)wrong.next(); }).kind == ErrorKind::kCorrupt);
}
