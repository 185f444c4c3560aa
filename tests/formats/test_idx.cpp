// The IDX header: sizes are read big-endian, and what is not a header says what was expected.

#include <doctest/doctest.h>

#include <random>

#include "base/error.h"
#include "formats/idx.h"

using namespace mlx;
using namespace mlx::formats;

namespace {

std::string idx_complaint(const Bytes& head) {
  try {
    parse_idx_header(head, "train-images");
  } catch (const Error& error) {
    CHECK(error.kind == ErrorKind::kCorrupt);
    return error.message;
  }
  return "";
}

}  // namespace

TEST_CASE("idx: a header reads back") {
  const Bytes head = encode_idx_header(IdxType::kU8, {60000, 28, 28});
  CHECK(head == Bytes{0, 0, 8, 3, 0, 0, 0xEA, 0x60, 0, 0, 0, 28, 0, 0, 0, 28});
  const IdxHeader header = parse_idx_header(head, "x");
  CHECK(header.type == IdxType::kU8);
  CHECK(header.dims == std::vector<std::uint64_t>{60000, 28, 28});
  CHECK(header.header_bytes == 16);
  CHECK(header.data_bytes == 60000ull * 28 * 28);
  CHECK(parse_idx_header(encode_idx_header(IdxType::kF64, {3}), "x").data_bytes == 24);
}

TEST_CASE("idx: what is not a header is refused with offset, expected and found") {
  CHECK(idx_complaint({0x50, 0x4B, 3, 4}) ==
        "train-images: offset 0: expected an IDX magic number (00 00, type 08 to 0e, rank from 01), found 50 4b 03 04");
  CHECK(idx_complaint({0, 0, 0x0A, 1, 0, 0, 0, 1}).find("found 00 00 0a 01") != std::string::npos);
  CHECK(idx_complaint({0, 0, 8, 0}).find("magic") != std::string::npos);
  CHECK(idx_complaint({0, 0}).find("found 2") != std::string::npos);
  CHECK(idx_complaint({0, 0, 8, 3, 0, 0}) == "train-images: offset 6: the header has 16 bytes, the file ends before");
  CHECK(
      idx_complaint(encode_idx_header(IdxType::kF64, {0xFFFFFFFF, 0xFFFFFFFF})).find("offset 8: the sizes multiply") !=
      std::string::npos);
}

TEST_CASE("idx: mutated headers are read or refused") {
  std::mt19937 random(3);
  for (int round = 0; round < 10000; ++round) {
    Bytes head =
        encode_idx_header(static_cast<IdxType>(8 + random() % 7), std::vector<std::uint32_t>(1 + random() % 4, 9));
    head[random() % head.size()] = static_cast<std::uint8_t>(random());
    if (random() % 4 == 0) head.resize(random() % (head.size() + 1));
    try {
      const IdxHeader header = parse_idx_header(head, "x");
      REQUIRE(header.header_bytes <= head.size());
      REQUIRE(header.dims.size() >= 1);
    } catch (const Error& error) {
      REQUIRE(error.kind == ErrorKind::kCorrupt);
    }
  }
}
