// The safetensors header: what is written is read back, and a header that lies is kCorrupt, never more than that.

#include <doctest/doctest.h>

#include <random>

#include "base/error.h"
#include "formats/safetensors.h"

using namespace mlx;
using namespace mlx::formats;

namespace {

Bytes head_of(std::string_view json) {
  ByteWriter out;
  out.u64(json.size());
  out.raw(as_bytes(json));
  return out.take();
}

// The message of the error that parsing raises, "" where there is none.
std::string header_complaint(std::string_view json, std::uint64_t data_bytes) {
  const Bytes head = head_of(json);
  try {
    parse_safetensors(head, head.size() + data_bytes);
  } catch (const Error& error) {
    CHECK_MESSAGE(error.kind == ErrorKind::kCorrupt, error.message);
    return error.message;
  }
  return "";
}

bool says(const std::string& message, std::string_view part) {
  const bool found = message.find(part) != std::string::npos;
  if (!found) MESSAGE("got: " << message);
  return found;
}

}  // namespace

TEST_CASE("safetensors: a written header reads back, aligned, and is the same every time") {
  std::vector<SafetensorsEntry> tensors{
      {"conv1.weight", "F32", {32, 3, 3, 1}}, {"empty", "F32", {0, 7}}, {"scalar", "I64", {}}, {"w\"ö", "I8", {5}}};
  const Bytes head = encode_safetensors_header(tensors);
  CHECK(head.size() % 8 == 0);
  CHECK(tensors[0].begin == head.size());
  CHECK(tensors[3].end == head.size() + 32 * 9 * 4 + 8 + 5);
  const std::uint64_t file_size = tensors[3].end;
  CHECK(safetensors_header_size(ByteView(head).first(8), file_size) == head.size());

  const SafetensorsHeader header = parse_safetensors(head, file_size);
  CHECK(header.data_begin == head.size());
  REQUIRE(header.tensors.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(header.tensors[i].name == tensors[i].name);
    CHECK(header.tensors[i].dtype == tensors[i].dtype);
    CHECK(header.tensors[i].shape == tensors[i].shape);
    CHECK(header.tensors[i].begin == tensors[i].begin);
    CHECK(header.tensors[i].end == tensors[i].end);
  }
  CHECK(encode_safetensors_header(tensors) == head);
  std::vector<SafetensorsEntry> none;
  CHECK(parse_safetensors(encode_safetensors_header(none), 16).tensors.empty());
}

TEST_CASE("safetensors: order in the header does not matter, metadata is kept, sub-byte types are known") {
  const Bytes head = head_of(R"({"b":{"dtype":"F4","shape":[2,2],"data_offsets":[4,6]},"__metadata__":{"format":"pt"},)"
                             R"("a":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]}}   )");
  const SafetensorsHeader header = parse_safetensors(head, head.size() + 6);
  REQUIRE(header.tensors.size() == 2);
  CHECK(header.tensors[0].name == "a");
  CHECK(header.tensors[1].begin == head.size() + 4);
  REQUIRE(header.metadata.size() == 1);
  CHECK(header.metadata[0].second == "pt");
}

TEST_CASE("safetensors: a header that lies is corrupt, and the message says how") {
  const auto tensor = [](std::string_view name, std::string_view dtype, std::string_view shape,
                         std::string_view offsets) {
    return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape, offsets);
  };
  const std::string a = tensor("a", "F32", "[2]", "[0,8]");
  CHECK(header_complaint("{" + a + "}", 8).empty());
  CHECK(says(header_complaint("{" + a + "," + tensor("b", "F32", "[2]", "[4,12]") + "}", 12), "overlap"));
  CHECK(says(header_complaint("{" + a + "," + tensor("b", "F32", "[1]", "[12,16]") + "}", 16), "hole"));
  CHECK(says(header_complaint("{" + a + "}", 9), "1 bytes after the last tensor"));
  CHECK(says(header_complaint("{" + a + "}", 7), "not inside"));
  CHECK(says(header_complaint("{" + a + "," + a + "}", 8), "occurs twice"));
  CHECK(says(header_complaint(R"({"a":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8),
             "occurs twice"));
  CHECK(says(header_complaint("{" + tensor("a", "F99", "[2]", "[0,8]") + "}", 8), "unknown dtype 'F99'"));
  CHECK(says(header_complaint("{" + tensor("a", "F32", "[3]", "[0,8]") + "}", 8), "need 12 bytes"));
  CHECK(says(header_complaint("{" + tensor("a", "F4", "[3]", "[0,8]") + "}", 8), "whole bytes"));
  CHECK(says(header_complaint("{" + tensor("a", "F32", "[4294967296,4294967296]", "[0,8]") + "}", 8),
             "64 bits can count"));
  CHECK(says(header_complaint("{" + tensor("a", "F32", "[18446744073709551615]", "[0,8]") + "}", 8), "too large"));
  CHECK(says(header_complaint("{" + tensor("a", "F32", "[99999999999999999999]", "[0,8]") + "}", 8), "at least 0"));
  CHECK(says(header_complaint("{" + tensor("a", "F32", "[-2]", "[0,8]") + "}", 8), "at least 0"));
  CHECK(says(header_complaint("{" + tensor("a", "F32", "[2.0]", "[0,8]") + "}", 8), "at least 0"));
  CHECK(says(header_complaint("{" + tensor("a", "F32", "[2]", "[8,0]") + "}", 8), "not inside"));
  CHECK(says(header_complaint("{" + tensor("a", "F32", "[2]", "[0,18446744073709551615]") + "}", 8), "not inside"));
  CHECK(says(header_complaint("{" + tensor("a", "F32", "[2]", "[0]") + "}", 8), "two data_offsets"));
  CHECK(says(header_complaint(R"({"a":{"dtype":"F32","shape":[2]}})", 8), "'data_offsets' is missing"));
  CHECK(says(header_complaint(R"({"a":{"dtype":4,"shape":[2],"data_offsets":[0,8]}})", 8), "expected a string"));
  CHECK(says(header_complaint(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})", 8), "exactly"));
  CHECK(says(header_complaint(R"({"a":3})", 0), "'dtype' is missing"));
  CHECK(says(header_complaint(R"({"__metadata__":{"a":1}})", 0), "not a string"));
  CHECK(says(header_complaint("{nonsense}", 0), "not JSON"));
  CHECK(says(header_complaint(R"({"a":)" + std::string(5000, '[') + std::string(5000, ']') + "}", 0), "nested deeper"));
  CHECK(says(header_complaint("[]", 0), "begins with '{'"));

  CHECK_THROWS_AS(parse_safetensors(Bytes(7, 0), 7), Error);
  const Bytes whole = head_of("{}      ");
  CHECK_THROWS_AS(parse_safetensors(ByteView(whole).first(12), whole.size()), Error);  // cut off
  CHECK(safetensors_header_size(Bytes(8, 0xFF), 1 << 20) == 0);
  CHECK(safetensors_header_size(Bytes(8, 0), 1 << 20) == 0);
  CHECK(safetensors_header_size(Bytes(7, 0), 1 << 20) == 0);
}

// bug: the time grew with the square of the number; 150,000 took six minutes.
TEST_CASE("safetensors: a header of many tensors costs no more than in proportion") {
  std::vector<SafetensorsEntry> tensors(150000);
  for (std::size_t i = 0; i < tensors.size(); ++i) tensors[i] = {fmt::format("layer{}.weight", i), "I8", {1}};
  const Bytes head = encode_safetensors_header(tensors);
  CHECK(parse_safetensors(head, tensors.back().end).tensors.size() == tensors.size());
}

TEST_CASE("safetensors: mutated headers are read or refused, and what is read covers the file") {
  std::vector<SafetensorsEntry> tensors{{"a.weight", "F32", {4, 3}}, {"b", "I8", {7}}, {"c", "BF16", {2, 2}}};
  const Bytes head = encode_safetensors_header(tensors);
  const std::uint64_t file_size = tensors.back().end;
  std::mt19937 random(7);
  int read = 0, refused = 0;
  for (int round = 0; round < 5000; ++round) {
    Bytes mutated = head;
    const int edits = 1 + static_cast<int>(random() % 3);
    for (int i = 0; i < edits; ++i) {
      std::uint8_t& byte = mutated[random() % mutated.size()];
      byte = random() % 2 ? static_cast<std::uint8_t>(random())
                          : static_cast<std::uint8_t>("0123456789{}[],:\""[random() % 17]);
    }
    if (random() % 8 == 0) mutated.resize(random() % mutated.size());
    try {
      const SafetensorsHeader header = parse_safetensors(mutated, file_size);
      std::uint64_t at = header.data_begin;
      for (const SafetensorsEntry& entry : header.tensors) {
        REQUIRE(entry.begin == at);
        at = entry.end;
      }
      REQUIRE(at == file_size);
      ++read;
    } catch (const Error& error) {
      REQUIRE(error.kind == ErrorKind::kCorrupt);
      ++refused;
    }
  }
  CHECK(read > 0);
  CHECK(refused > 2500);
}
