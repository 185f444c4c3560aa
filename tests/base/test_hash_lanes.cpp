// Hashing in lanes against OpenSSL: every length around the block size, streams in pieces, and many streams at once.
#include <doctest/doctest.h>

#include <random>

#include "base/hash_lanes.h"

using namespace mlx;

namespace {

Bytes noise(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes bytes(count);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
  return bytes;
}

void feed(LaneHash& hash, ByteView bytes) {
  LaneHash* streams[] = {&hash};
  ByteView pieces[] = {bytes};
  update_lanes(streams, pieces);
}

}  // namespace

TEST_CASE("lanes: one stream of every length around a few blocks") {
  Bytes bytes = noise(300, 1);
  LaneHash hash;
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    feed(hash, ByteView(bytes).first(size));
    CHECK(hash.finish() == Digest::of(ByteView(bytes).first(size)));
  }
}

TEST_CASE("lanes: the FIPS 180-4 example") {
  LaneHash hash;
  feed(hash, as_bytes("abc"));
  CHECK(hash.finish().hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST_CASE("lanes: streams in pieces of any size, any number at once") {
  std::mt19937_64 random(2);
  for (int round = 0; round < 200; ++round) {
    std::size_t count = random() % 9;
    std::vector<Bytes> contents(count);
    std::vector<LaneHash> hashes(count);
    for (auto& content : contents) content = noise(random() % 3000, random());
    std::vector<std::size_t> done(count);
    for (bool more = true; more;) {
      more = false;
      std::vector<LaneHash*> streams;
      std::vector<ByteView> pieces;
      for (std::size_t i = 0; i < count; ++i) {
        std::size_t piece = std::min<std::size_t>(random() % 700, contents[i].size() - done[i]);
        streams.push_back(&hashes[i]);
        pieces.push_back(ByteView(contents[i]).subspan(done[i], piece));
        done[i] += piece;
        more = more || done[i] < contents[i].size();
      }
      update_lanes(streams, pieces);
    }
    for (std::size_t i = 0; i < count; ++i) CHECK(hashes[i].finish() == Digest::of(contents[i]));
  }
}

TEST_CASE("lanes: a large stream beside many small ones") {
  Bytes whole = noise(1'000'003, 3);
  LaneHash large;
  std::vector<LaneHash> small(20);
  std::vector<LaneHash*> streams{&large};
  std::vector<ByteView> pieces{whole};
  for (std::size_t i = 0; i < small.size(); ++i) {
    streams.push_back(&small[i]);
    pieces.push_back(ByteView(whole).subspan(i * 50'000, 50'000 - i));
  }
  update_lanes(streams, pieces);
  CHECK(large.finish() == Digest::of(whole));
  for (std::size_t i = 0; i < small.size(); ++i) CHECK(small[i].finish() == Digest::of(pieces[i + 1]));
}
