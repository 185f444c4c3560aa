// Tensors as a safetensors file and back: what encode_tensors and decode_tensors in nn/model.h promise.

#include <array>

#include "base/error.h"
#include "formats/safetensors.h"
#include "nn/model.h"

namespace mlx::nn {
namespace {

using kernels::DType;

struct Pair {
  DType ours;
  const char* theirs;
};
constexpr std::array<Pair, 6> kDTypes{{{DType::kF32, "F32"},
                                       {DType::kBF16, "BF16"},
                                       {DType::kS32, "I32"},
                                       {DType::kS8, "I8"},
                                       {DType::kU8, "U8"},
                                       {DType::kI64, "I64"}}};

std::string theirs(DType dtype) {
  for (const Pair& pair : kDTypes) {
    if (pair.ours == dtype) return pair.theirs;
  }
  fail(ErrorKind::kUsage, "tensors of {} cannot be stored", kernels::name_of(dtype));
}

kernels::Shape shape_of(const formats::SafetensorsEntry& entry, std::string_view what) {
  kernels::Shape shape;
  bool known = false;
  for (const Pair& pair : kDTypes) {
    if (entry.dtype == pair.theirs) shape.dtype = pair.ours, known = true;
  }
  if (!known)
    fail(ErrorKind::kCorrupt, "{}: tensor '{}': dtype {} is not used by models", what, entry.name, entry.dtype);
  if (entry.shape.size() > kernels::kMaxRank) {
    fail(ErrorKind::kCorrupt, "{}: tensor '{}' has {} dimensions, at most {} are possible", what, entry.name,
         entry.shape.size(), kernels::kMaxRank);
  }
  shape.rank = static_cast<int>(entry.shape.size());
  for (std::size_t i = 0; i < entry.shape.size(); ++i) shape.dims[i] = entry.shape[i];
  return shape;
}

}  // namespace

Bytes encode_tensors(const graph::Tensors& tensors) {
  std::vector<formats::SafetensorsEntry> entries;
  for (const auto& [name, tensor] : tensors) {
    const kernels::Shape& shape = tensor.shape;
    CHECK(tensor.data.size() == shape.bytes());
    entries.push_back({name, theirs(shape.dtype), {shape.dims.begin(), shape.dims.begin() + shape.rank}});
  }
  Bytes out = formats::encode_safetensors_header(entries);
  out.reserve(entries.empty() ? out.size() : entries.back().end);
  for (const auto& [name, tensor] : tensors) out.insert(out.end(), tensor.data.begin(), tensor.data.end());
  return out;
}

graph::Tensors decode_tensors(ByteView bytes, std::string_view what) {
  formats::SafetensorsHeader header;
  try {
    header = formats::parse_safetensors(bytes, bytes.size());
  } catch (Error& error) {
    error.message = fmt::format("{}: {}", what, error.message);
    throw;
  }
  graph::Tensors tensors;
  for (const formats::SafetensorsEntry& entry : header.tensors) {
    const ByteView data = bytes.subspan(entry.begin, entry.end - entry.begin);
    tensors[entry.name] = {shape_of(entry, what), Bytes(data.begin(), data.end())};
  }
  return tensors;
}

}  // namespace mlx::nn
