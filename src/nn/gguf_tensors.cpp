// Checks of what the header says about each tensor.

#include "nn/gguf_tensors.h"

#include <algorithm>

#include "base/error.h"
#include "base/fd.h"
#include "base/text.h"

namespace mlx::nn {
namespace {

constexpr std::uint64_t kMostOfADim = std::uint64_t{1} << 40;
constexpr std::size_t kMostDims = 4;

GgufTensors::Tensor checked(const formats::GgufTensor& from, ByteView file, const std::string& place) {
  const std::string name = printable(from.name);
  const auto corrupt = [&](const char* why) { fail(ErrorKind::kCorrupt, "{}: the tensor '{}' {}", place, name, why); };
  GgufTensors::Tensor out;
  out.type = find_gguf_type(from.type);
  if (!out.type) {
    throw Error(
        ErrorKind::kUsage,
        fmt::format("{}: the tensor '{}' is {}, which is not supported", place, name, gguf_type_name(from.type)),
        "supported: " + supported_gguf_types());
  }
  if (from.shape.empty() || from.shape.size() > kMostDims) corrupt("has no dimension, or more than 4");
  if (std::ranges::any_of(from.shape, [](std::uint64_t dim) { return dim < 1 || dim > kMostOfADim; }))
    corrupt("has an impossible dimension");
  for (const std::uint64_t dim : from.shape) out.shape.insert(out.shape.begin(), static_cast<std::int64_t>(dim));
  if (out.row() % out.type->elements != 0) corrupt("has rows that end inside a block");
  out.bytes = file.subspan(from.begin, from.end - from.begin);
  return out;
}

}  // namespace

GgufTensors read_gguf_tensors(ByteView file, std::string place) {
  GgufTensors out;
  out.place = std::move(place);
  formats::GgufHeader header;
  try {
    header = formats::parse_gguf(file, file.size());
    out.metadata = formats::read_gguf_metadata(file);
  } catch (Error& error) {
    error.message = fmt::format("{}: {}", out.place, printable(error.message));
    throw;
  }
  for (const formats::GgufTensor& tensor : header.tensors) {
    if ((tensor.begin - header.data_begin) % header.alignment != 0)
      fail(ErrorKind::kCorrupt, "{}: the tensor '{}' is not aligned to {} bytes", out.place, printable(tensor.name),
           header.alignment);
    if (!out.tensors.emplace(tensor.name, checked(tensor, file, out.place)).second)
      fail(ErrorKind::kCorrupt, "{}: the tensor '{}' is there twice", out.place, printable(tensor.name));
  }
  return out;
}

GgufTensors open_gguf_tensors(const std::string& path) {
  (void)open_regular_file(path);
  const auto mapped = std::make_shared<const MappedFile>(path);
  GgufTensors out = read_gguf_tensors(mapped->bytes(), printable(path));
  out.memory = mapped;
  return out;
}

}  // namespace mlx::nn
