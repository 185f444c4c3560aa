// Git LFS pointers: byte for byte there and back, and what is refused.
#include <doctest/doctest.h>

#include <random>

#include "base/error.h"
#include "formats/lfs_pointer.h"

using namespace mlx;
using namespace mlx::formats;

namespace {

// The example of the specification.
const std::string kExample =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
    "size 12345\n";

std::string pointer_complaint(const std::string& from, const std::string& to) {
  std::string text = kExample;
  text.replace(text.find(from), from.size(), to);
  try {
    return parse_lfs_pointer(text, "f") ? "taken" : "no pointer";
  } catch (const Error& error) {
    return error.kind == ErrorKind::kCorrupt ? error.message : "another kind";
  }
}

}  // namespace

TEST_CASE("lfs: a pointer reads, and is written as git-lfs writes it") {
  const std::optional<LfsPointer> pointer = parse_lfs_pointer(kExample, "f");
  REQUIRE(pointer);
  CHECK(pointer->oid.hex() == "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393");
  CHECK(pointer->size == 12345);
  CHECK(encode_lfs_pointer(*pointer) == kExample);
  std::string extended = kExample;
  extended.insert(extended.find("oid"), "ext-0-foo sha256:aa\next-1-bar b\n");
  const std::optional<LfsPointer> with = parse_lfs_pointer(extended, "f");
  REQUIRE(with);
  CHECK(with->extensions.size() == 2);
  CHECK(encode_lfs_pointer(*with) == extended);
}

TEST_CASE("lfs: ordinary files are no pointers, broken pointers are refused with their line") {
  CHECK_FALSE(parse_lfs_pointer("", "f"));
  CHECK_FALSE(parse_lfs_pointer("version 2\n", "f"));
  CHECK_FALSE(parse_lfs_pointer(kExample + std::string(1024, 'x'), "f"));
  CHECK(pointer_complaint("spec/v1", "spec/v2").find("f:1: ") == 0);
  CHECK(pointer_complaint("size 12345\n", "size 12345").find("f:3: not a pointer of Git LFS: the line has no end") ==
        0);
  CHECK(pointer_complaint("size 12345", "size 012345").find("f:3: ") == 0);
  CHECK(pointer_complaint("size 12345", "size -1").find("f:3: ") == 0);
  CHECK(pointer_complaint("size 12345\n", "").find("the size is missing") != std::string::npos);
  CHECK(pointer_complaint("oid sha256:4d", "oid sha256:4D").find("f:2: ") == 0);
  CHECK(pointer_complaint("oid sha256:", "oid md5:").find("f:2: ") == 0);
  CHECK(pointer_complaint("size 12345\n", "size 12345\nsize 12345\n").find("f:4: ") == 0);
  CHECK(pointer_complaint("oid", "zoo 1\noid").find("f:2: ") == 0);
  CHECK(pointer_complaint("oid ", "oid  ").find("f:2: ") == 0);
  CHECK(pointer_complaint("size 12345\n", "size 12345\r\n").find("f:3: ") == 0);
}

TEST_CASE("lfs: whatever is changed in a pointer, what is taken is written back as it was read") {
  std::mt19937 bits(3);
  for (int round = 0; round < 20000; ++round) {
    std::string text = kExample;
    for (unsigned changes = bits() % 3 + 1; changes > 0; --changes) {
      const std::size_t at = bits() % text.size();
      bits() % 2 != 0 ? text.erase(at, 1) : text.replace(at, 1, 1, static_cast<char>(bits() % 128));
    }
    try {
      const std::optional<LfsPointer> pointer = parse_lfs_pointer(text, "f");
      if (pointer) REQUIRE(encode_lfs_pointer(*pointer) == text);
    } catch (const Error& error) {
      REQUIRE(error.kind == ErrorKind::kCorrupt);
    }
  }
}
