// SHA-256 against FIPS 180-4's examples, in one piece and in many, from many threads.
#include <doctest/doctest.h>

#include <thread>
#include <vector>

#include "base/hash.h"
#include "throws.h"

using namespace mlx;

namespace {
constexpr const char* kEmpty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
constexpr const char* kAbc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr const char* kMillionA = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
}  // namespace

TEST_CASE("the digests that FIPS 180-4 gives") {
  CHECK_EQ(Digest::of("").hex(), kEmpty);
  CHECK_EQ(Digest::of("abc").hex(), kAbc);
  CHECK_EQ(Digest::of(std::string(1'000'000, 'a')).hex(), kMillionA);
}

TEST_CASE("hashing in pieces gives the same, and the object starts over") {
  Sha256 hash;
  for (int i = 0; i < 1000; ++i) hash.update(as_bytes(std::string(1000, 'a')));
  CHECK_EQ(hash.finish().hex(), kMillionA);
  CHECK_EQ(hash.finish().hex(), kEmpty);
  hash.update(as_bytes("ab"));
  Sha256 moved = std::move(hash);
  moved.update({});
  moved.update(as_bytes("c"));
  CHECK_EQ(moved.finish().hex(), kAbc);
}

TEST_CASE("digests have one text form") {
  const Digest digest = Digest::of("abc");
  CHECK_EQ(digest.text(), std::string("sha256:") + kAbc);
  CHECK_EQ(digest.brief(), "ba7816bf8f01");
  CHECK(Digest::parse(digest.text()) == digest);
  CHECK(Digest::parse(digest.hex()) == digest);
  CHECK(Digest::from(digest.bytes) == digest);
  CHECK(Digest{}.is_zero());
  CHECK_FALSE(digest.is_zero());
  for (const std::string& bad :
       {std::string(""), std::string("sha256:"), std::string("md5:") + kAbc, std::string(kAbc) + "0",
        std::string(kAbc).substr(1), std::string(63, 'a') + "G", std::string(64, 'A')}) {
    CHECK_MESSAGE(error_of([&] { Digest::parse(bad); }).kind == ErrorKind::kCorrupt, bad);
  }
  CHECK(error_of([&] { Digest::from(ByteView(digest.bytes).first(31)); }).kind == ErrorKind::kCorrupt);
}

TEST_CASE("threads hash independently") {
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&wrong, t] {
      for (int i = 0; i < 500; ++i) wrong[t] += Digest::of("abc").hex() != kAbc;
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int count : wrong) CHECK_EQ(count, 0);
}
