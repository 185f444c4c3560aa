// GGUF headers: places of tensors in files of both versions, and headers that lie.
#include "formats/gguf.h"

#include <doctest/doctest.h>

#include "../base/throws.h"

using namespace mlx;
using namespace mlx::formats;

namespace {

void put_string(ByteWriter& out, std::string_view text) {
  out.u64(text.size());
  out.raw(as_bytes(text));
}

struct Tensor {
  std::string name;
  std::vector<std::uint64_t> shape;
  std::uint32_t type;
  std::uint64_t offset;
};

Bytes header(const std::vector<Tensor>& tensors, std::uint32_t alignment = 0, std::uint32_t version = 3) {
  ByteWriter out;
  out.raw(as_bytes("GGUF"));
  out.u32(version);
  out.u64(tensors.size());
  out.u64(alignment ? 3 : 2);
  put_string(out, "general.name");
  out.u32(8);
  put_string(out, "small");
  put_string(out, "tokenizer.ggml.tokens");
  out.u32(9);
  out.u32(8);
  out.u64(2);
  put_string(out, "a");
  put_string(out, "bc");
  if (alignment) {
    put_string(out, "general.alignment");
    out.u32(4);
    out.u32(alignment);
  }
  for (const Tensor& tensor : tensors) {
    put_string(out, tensor.name);
    out.u32(static_cast<std::uint32_t>(tensor.shape.size()));
    for (std::uint64_t dim : tensor.shape) out.u64(dim);
    out.u32(tensor.type);
    out.u64(tensor.offset);
  }
  return out.take();
}

}  // namespace

TEST_CASE("tensors of a GGUF file stand where their offsets say, with the sizes of their types") {
  for (std::uint32_t version : {2u, 3u}) {
    Bytes head = header({{"b", {64, 2}, 8, 192}, {"a", {16, 3}, 0, 0}}, 0, version);
    std::uint64_t data = (head.size() + 31) / 32 * 32;
    GgufHeader read = parse_gguf(head, data + 192 + 4 * 34);
    CHECK(read.version == version);
    CHECK(read.data_begin == data);
    REQUIRE(read.tensors.size() == 2);
    CHECK(read.tensors[0].name == "a");
    CHECK(read.tensors[0].begin == data);
    CHECK(read.tensors[0].end == data + 192);
    CHECK(read.tensors[1].end == data + 192 + 4 * 34);
  }
  Bytes aligned = header({{"a", {4}, 30, 0}}, 256);
  CHECK(parse_gguf(aligned, 4096).data_begin % 256 == 0);
}

TEST_CASE("metadata of a GGUF file are values of their kinds, and of no others") {
  const Bytes head = header({{"a", {16}, 0, 0}}, 64);
  const GgufMetadata metadata = read_gguf_metadata(head);
  REQUIRE(metadata.size() == 3);
  std::vector<std::int64_t> integers;
  std::vector<double> numbers;
  std::vector<std::string_view> strings;
  CHECK(gguf_integers(metadata.at("general.alignment"), integers));
  CHECK(integers == std::vector<std::int64_t>{64});
  CHECK(gguf_numbers(metadata.at("general.alignment"), numbers));
  CHECK_FALSE(gguf_strings(metadata.at("general.alignment"), strings));
  const GgufValue& tokens = metadata.at("tokenizer.ggml.tokens");
  CHECK(tokens.array);
  CHECK(gguf_strings(tokens, strings));
  CHECK(strings == std::vector<std::string_view>{"a", "bc"});
  CHECK_FALSE(gguf_numbers(tokens, numbers));
  const auto of = [](GgufKind kind, const Bytes& bytes) { return GgufValue{kind, false, 1, bytes}; };
  const Bytes ones(8, 255), two(2, 255), half{0, 0, 0, 63};
  CHECK(gguf_integers(of(GgufKind::kI16, two), integers));
  CHECK(integers[0] == -1);
  CHECK(gguf_integers(of(GgufKind::kU16, two), integers));
  CHECK(integers[0] == 65535);
  CHECK_FALSE(gguf_integers(of(GgufKind::kU64, ones), integers));
  CHECK(gguf_numbers(of(GgufKind::kF32, half), numbers));
  CHECK(numbers[0] == 0.5);
  ByteWriter twice;
  twice.raw(as_bytes("GGUF"));
  twice.u32(3), twice.u64(0), twice.u64(2);
  for (int i = 0; i < 2; ++i) put_string(twice, "key"), twice.u32(7), twice.u8(1);
  CHECK(error_of([&] { read_gguf_metadata(twice.bytes()); }).kind == ErrorKind::kCorrupt);
}

TEST_CASE("a tensor of an unknown type ends where the next one begins") {
  Bytes head = header({{"new", {5}, 99, 0}, {"a", {8}, 0, 64}});
  std::uint64_t data = (head.size() + 31) / 32 * 32;
  CHECK(parse_gguf(head, data + 96).tensors[0].end == data + 64);
}

TEST_CASE("GGUF headers that lie are corrupt") {
  auto bad = [](Bytes head, std::uint64_t size) { return error_of([&] { parse_gguf(head, size); }).kind; };
  CHECK(bad(header({{"a", {16}, 0, 0}, {"b", {16}, 0, 32}}), 1 << 20) == ErrorKind::kCorrupt);  // overlap
  CHECK(bad(header({{"a", {1 << 20}, 0, 0}}), 4096) == ErrorKind::kCorrupt);                    // beyond the file
  CHECK(bad(header({{"a", {16}, 0, 1 << 20}}), 4096) == ErrorKind::kCorrupt);                   // begins outside
  CHECK(bad(header({{"a", {33}, 8, 0}}), 4096) == ErrorKind::kCorrupt);                         // inside a block
  CHECK(bad(header({{"a", {std::uint64_t{1} << 40, std::uint64_t{1} << 40}, 0, 0}}), 4096) == ErrorKind::kCorrupt);
  CHECK(bad(header({{"a", {16}, 0, 0}}, 24), 4096) == ErrorKind::kCorrupt);  // alignment
  CHECK(bad(header({{"a", {16}, 0, 0}}, 0, 7), 4096) == ErrorKind::kCorrupt);
  Bytes whole = header({{"a", {16}, 0, 0}});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CHECK(bad(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size)), 4096) == ErrorKind::kCorrupt);
  }
}
