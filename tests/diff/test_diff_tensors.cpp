// Tensor diffs against figures worked out by hand, for every kind of number; headers that lie.
#include "diff/diff_tensors.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "base/error.h"
#include "diff/tensor_elements.h"
#include "formats/npy.h"

namespace mlx::diff {
namespace {

struct Made {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

template <typename Stored>
std::string bytes_of(const std::vector<Stored>& values) {
  std::string bytes(values.size() * sizeof(Stored), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TensorFile file_of(const std::vector<Made>& tensors) {
  std::vector<formats::SafetensorsEntry> entries;
  for (const Made& tensor : tensors) entries.push_back({tensor.name, tensor.dtype, tensor.shape, 0, 0});
  std::string text(as_text(formats::encode_safetensors_header(entries)));
  for (const Made& tensor : tensors) text += tensor.bytes;
  return read_tensor_file(memory_source(text), "x.safetensors", text.size());
}

TensorsDiff diff(const std::vector<Made>& before, const std::vector<Made>& after) {
  Pool pool(2);
  NoProgress silent;
  return diff_tensors(file_of(before), file_of(after), pool, silent);
}

TEST_CASE("norm of the difference, share, largest difference") {
  const TensorsDiff d = diff({{"w", "F32", {2, 2}, bytes_of<float>({3, 4, 0, 0})}, {"same", "U8", {1}, "x"}},
                             {{"same", "U8", {1}, "x"}, {"w", "F32", {2, 2}, bytes_of<float>({3, 4, 3, -4})}});
  CHECK(d.same == 1);
  REQUIRE(d.tensors.size() == 1);
  CHECK(d.tensors[0].kind == TensorChange::Kind::kChanged);
  CHECK(d.tensors[0].changed == 2);
  CHECK(d.tensors[0].share() == 0.5);
  CHECK(d.tensors[0].norm_before == doctest::Approx(5));
  CHECK(d.tensors[0].norm_difference == doctest::Approx(5));
  CHECK(d.tensors[0].largest == 4);
}

TEST_CASE("added, removed, of another shape or type") {
  using Kind = TensorChange::Kind;
  const TensorsDiff d =
      diff({{"gone", "U8", {2}, "ab"}, {"wide", "U8", {2}, "ab"}, {"int", "I16", {1}, bytes_of<std::int16_t>({-3})}},
           {{"wide", "U8", {3}, "abc"}, {"int", "F32", {1}, bytes_of<float>({-2.5F})}, {"new", "U8", {0}, ""}});
  REQUIRE(d.tensors.size() == 4);
  CHECK(d.tensors[0].kind == Kind::kRemoved);
  std::map<std::string, TensorChange> by_name;
  for (const TensorChange& t : d.tensors) by_name[t.name] = t;
  CHECK(by_name["wide"].kind == Kind::kReshaped);
  CHECK_FALSE(by_name["wide"].compared);
  CHECK(by_name["new"].kind == Kind::kAdded);
  CHECK(by_name["int"].largest == 0.5);
  CHECK(d.elements_before == 5);
  CHECK(d.elements_after == 4);
}

TEST_CASE("8-bit weights are measured with their scales") {
  const TensorsDiff d = diff(
      {{"w", "F32", {2, 2}, bytes_of<float>({1, 2, 30, 40})}},
      {{"w", "I8", {2, 2}, bytes_of<std::int8_t>({2, 4, 3, 5})}, {"w_scale", "F32", {2}, bytes_of<float>({0.5F, 10})}});
  const auto found = std::ranges::find(d.tensors, "w", &TensorChange::name);
  REQUIRE(found != d.tensors.end());
  CHECK(found->changed == 1);
  CHECK(found->norm_difference == doctest::Approx(10));
}

TEST_CASE("NaN and infinity are counted and kept out of the sums; NaN is the same as NaN") {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const TensorsDiff d = diff({{"w", "F32", {4}, bytes_of<float>({nan, 1, 2, inf})}},
                             {{"w", "F32", {4}, bytes_of<float>({nan, nan, 5, 1})}});
  CHECK(d.tensors[0].changed == 3);
  CHECK(d.tensors[0].not_finite == 2);
  CHECK(d.tensors[0].norm_difference == 3);
}

TEST_CASE("every kind of number") {
  double value[1];
  const auto decoded = [&](const char* dtype, const std::string& bytes) {
    CHECK(element_size(dtype) == bytes.size());
    decode_elements(dtype, as_bytes(bytes), value);
    return value[0];
  };
  CHECK(decoded("F64", bytes_of<double>({-1.5})) == -1.5);
  CHECK(decoded("F32", bytes_of<float>({0.25F})) == 0.25);
  CHECK(decoded("F16", bytes_of<std::uint16_t>({0x3C00})) == 1);
  CHECK(decoded("F16", bytes_of<std::uint16_t>({0xC500})) == -5);
  CHECK(decoded("F16", bytes_of<std::uint16_t>({0x0001})) == std::ldexp(1.0, -24));
  CHECK(decoded("F16", bytes_of<std::uint16_t>({0x7BFF})) == 65504);
  CHECK(std::isinf(decoded("F16", bytes_of<std::uint16_t>({0x7C00}))));
  CHECK(std::isnan(decoded("F16", bytes_of<std::uint16_t>({0x7C01}))));
  CHECK(decoded("BF16", bytes_of<std::uint16_t>({0xBF80})) == -1);
  CHECK(decoded("I8", "\xFF") == -1);
  CHECK(decoded("U8", "\xFF") == 255);
  CHECK(decoded("I16", bytes_of<std::int16_t>({-300})) == -300);
  CHECK(decoded("U32", bytes_of<std::uint32_t>({4000000000U})) == 4e9);
  CHECK(decoded("I64", bytes_of<std::int64_t>({-7})) == -7);
  CHECK(element_size("F8_E4M3") == 0);
}

TEST_CASE("tensors of several pieces add up whatever the number of threads") {
  std::vector<float> before(3'000'000, 1.0F), after(before);
  for (std::size_t i = 0; i < after.size(); i += 1000) after[i] = 3;
  const std::vector<Made> a = {{"w", "F32", {3'000'000}, bytes_of(before)}},
                          b = {{"w", "F32", {3'000'000}, bytes_of(after)}};
  const TensorsDiff d = diff(a, b);
  CHECK(d.tensors[0].changed == 3000);
  CHECK(d.tensors[0].norm_difference == doctest::Approx(std::sqrt(3000 * 4.0)));
  Pool one(1);
  NoProgress silent;
  CHECK(diff_tensors(file_of(a), file_of(b), one, silent).tensors[0].norm_before == d.tensors[0].norm_before);
}

TEST_CASE("npy: the header that NumPy writes, and others") {
  const auto npy = [](const std::string& dict) {
    std::string text = "\x93NUMPY";
    text += std::string("\x01\x00", 2) + char(dict.size()) + '\0' + dict;
    return text;
  };
  const std::string good = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }          \n");
  const formats::NpyHeader header = formats::parse_npy(as_bytes(good));
  CHECK(header.descr == "<f4");
  CHECK(header.shape == std::vector<std::int64_t>{2, 3});
  CHECK(read_tensor_file(memory_source(good + std::string(24, 'x')), "a.npy", good.size() + 24).tensors[0].dtype ==
        "F32");
  CHECK_THROWS_AS(read_tensor_file(memory_source(good), "a.npy", good.size()), Error);
  CHECK(
      formats::parse_npy(as_bytes(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (), }   \n"))).shape.empty());
  for (const char* bad : {"", "{}", "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }",
                          "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
                          "{'descr': '<f4', 'fortran_order': False, 'shape': (1"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(formats::parse_npy(as_bytes(npy(bad))), Error);
  }
}

}  // namespace
}  // namespace mlx::diff
