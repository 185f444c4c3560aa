// See binary_tensors.h.
#include "serve/binary_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cmath>
#include <iterator>
#include <type_traits>

#include "base/bytes.h"
#include "base/error.h"
#include "serve/json_reader.h"

namespace mlx::serve {
namespace {

using Out = std::back_insert_iterator<std::string>;

template <typename T>
void write_number(Out out, const std::uint8_t* at, const InputTensor& /*tensor*/) {
  using Bits = std::make_unsigned_t<T>;
  fmt::format_to(out, "{},", static_cast<T>(load_little_endian<Bits>(at)));
}

template <typename Real, typename Bits>
void write_real(Out out, const std::uint8_t* at, const InputTensor& tensor) {
  const auto value = std::bit_cast<Real>(load_little_endian<Bits>(at));
  if (!std::isfinite(value)) fail(ErrorKind::kUsage, "input '{}': its data holds NaN or infinity", tensor.name);
  fmt::format_to(out, "{},", static_cast<double>(value));
}

void write_bool(Out out, const std::uint8_t* at, const InputTensor& tensor) {
  if (*at > 1) fail(ErrorKind::kUsage, "input '{}': its data holds {}, no BOOL", tensor.name, *at);
  fmt::format_to(out, "{},", *at == 1);
}

struct BinaryDatatype {
  std::string_view name;
  std::size_t size;
  void (*write)(Out out, const std::uint8_t* at, const InputTensor& tensor);
};
constexpr BinaryDatatype kBinaryDatatypes[] = {
    {"BOOL", 1, write_bool},
    {"UINT8", 1, write_number<std::uint8_t>},
    {"UINT16", 2, write_number<std::uint16_t>},
    {"UINT32", 4, write_number<std::uint32_t>},
    {"UINT64", 8, write_number<std::uint64_t>},
    {"INT8", 1, write_number<std::int8_t>},
    {"INT16", 2, write_number<std::int16_t>},
    {"INT32", 4, write_number<std::int32_t>},
    {"INT64", 8, write_number<std::int64_t>},
    {"FP32", 4, write_real<float, std::uint32_t>},
    {"FP64", 8, write_real<double, std::uint64_t>},
};

// How many values the shape has. Only as far as data can be: a shape may say anything.
std::uint64_t values_in(const InputTensor& tensor) {
  std::uint64_t count = 1;
  for (const std::int64_t size : tensor.shape) {
    if (size < 0 || (size > 0 && count > (std::uint64_t{1} << 40) / static_cast<std::uint64_t>(size)))
      fail(ErrorKind::kUsage, "input '{}': shape [{}] does not fit", tensor.name, fmt::join(tensor.shape, ","));
    count *= static_cast<std::uint64_t>(size);
  }
  return count;
}

[[noreturn]] void wrong_size(const InputTensor& tensor, std::size_t bytes) {
  fail(ErrorKind::kUsage, "input '{}': {} bytes of {} are not what shape [{}] needs", tensor.name, bytes,
       tensor.datatype, fmt::join(tensor.shape, ","));
}

const BinaryDatatype& binary_datatype(const InputTensor& tensor, std::size_t bytes) {
  for (const BinaryDatatype& datatype : kBinaryDatatypes) {
    if (datatype.name != tensor.datatype) continue;
    if (values_in(tensor) * datatype.size != bytes) wrong_size(tensor, bytes);
    return datatype;
  }
  fail(ErrorKind::kUsage, "input '{}': datatype '{}' is not supported as binary data", tensor.name, tensor.datatype);
}

std::string json_of_texts(const InputTensor& tensor, std::string_view bytes) {
  std::string out = "[";
  const std::uint64_t count = values_in(tensor);
  std::string_view rest = bytes;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (rest.size() < 4) wrong_size(tensor, bytes.size());
    const std::size_t size = load_little_endian<std::uint32_t>(as_bytes(rest).data());
    rest.remove_prefix(4);
    if (rest.size() < size) wrong_size(tensor, bytes.size());
    const std::string_view text = rest.substr(0, size);
    if (!is_utf8(text)) fail(ErrorKind::kUsage, "input '{}': a text is not UTF-8", tensor.name);
    append_json_string(out, text);
    out += ',';
    rest.remove_prefix(size);
  }
  if (!rest.empty()) wrong_size(tensor, bytes.size());
  if (out.back() == ',') out.pop_back();
  return out + "]";
}

}  // namespace

std::vector<float> floats_of(const InputTensor& tensor, std::string_view bytes) {
  const BinaryDatatype& datatype = binary_datatype(tensor, bytes.size());
  const std::uint8_t* const data = as_bytes(bytes).data();
  if (datatype.name == "UINT8") return {data, data + bytes.size()};
  if (datatype.name != "FP32")
    fail(ErrorKind::kUsage, "input '{}': datatype '{}' is not supported; expected UINT8 or FP32", tensor.name,
         tensor.datatype);
  std::vector<float> out(bytes.size() / sizeof(float));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = std::bit_cast<float>(load_little_endian<std::uint32_t>(data + i * sizeof(float)));
    if (!std::isfinite(out[i])) fail(ErrorKind::kUsage, "input '{}': its data holds NaN or infinity", tensor.name);
  }
  return out;
}

std::string json_of(const InputTensor& tensor, std::string_view bytes) {
  if (tensor.datatype == "BYTES") return json_of_texts(tensor, bytes);
  const BinaryDatatype& datatype = binary_datatype(tensor, bytes.size());
  std::string out = "[";
  for (std::size_t at = 0; at < bytes.size(); at += datatype.size)
    datatype.write(std::back_inserter(out), as_bytes(bytes).data() + at, tensor);
  if (out.back() == ',') out.pop_back();
  return out + "]";
}

void append_binary(std::string& to, std::string_view datatype, double value) {
  ByteWriter out;
  if (datatype == "FP32")
    out.u32(std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  else if (datatype == "FP64")
    out.u64(std::bit_cast<std::uint64_t>(value));
  else
    out.u64(static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
  to += as_text(out.bytes());
}

void append_binary(std::string& to, std::string_view text) {
  ByteWriter out;
  out.u32(static_cast<std::uint32_t>(text.size()));
  to += as_text(out.bytes());
  to += text;
}

}  // namespace mlx::serve
