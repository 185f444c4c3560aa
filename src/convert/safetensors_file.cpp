#include "convert/safetensors_file.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "formats/safetensors.h"

namespace mlx::convert {
namespace {

const char* safetensors_type(kernels::DType dtype) {
  return dtype == kernels::DType::kF32 ? "F32" : dtype == kernels::DType::kF16 ? "F16" : "BF16";
}

}  // namespace

std::uint64_t OutsideTensor::bytes() const {
  std::uint64_t count = kernels::size_of(dtype);
  for (const std::int64_t size : shape) count *= static_cast<std::uint64_t>(size);
  return count;
}

OutsideFile safetensors_file(std::string name, std::vector<OutsideTensor> tensors) {
  std::ranges::sort(tensors, [](const OutsideTensor& a, const OutsideTensor& b) {
    const std::size_t wide = kernels::size_of(a.dtype), other = kernels::size_of(b.dtype);
    return wide != other ? wide > other : a.name < b.name;
  });
  std::vector<formats::SafetensorsEntry> entries;
  entries.reserve(tensors.size());
  for (const OutsideTensor& tensor : tensors)
    entries.push_back({tensor.name, safetensors_type(tensor.dtype), tensor.shape});
  OutsideFile out{std::move(name), {}};
  out.pieces.push_back(piece_of(formats::encode_safetensors_header(entries, {{"format", "pt"}})));
  for (OutsideTensor& tensor : tensors) out.pieces.push_back({tensor.bytes(), std::move(tensor.make)});
  return out;
}

}  // namespace mlx::convert
