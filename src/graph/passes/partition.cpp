// Parts of tensors: which runs of bytes of the whole a part has, in which order.
#include "graph/passes/partition.h"

#include <cstring>

#include "base/error.h"

namespace mlx::graph {
namespace {

// Calls `each(offset in the whole, offset in the part, bytes)` for every run of bytes that the part has.
template <typename Each>
void for_each_run(const kernels::Shape& whole, const Cut& cut, int parts, int part, const Each& each) {
  std::size_t inner = kernels::size_of(whole.dtype), outer = 1;  // bytes of an element along the axis; how often
  const auto axis = static_cast<std::size_t>(cut.axis);
  for (std::size_t i = 0; i < static_cast<std::size_t>(whole.rank); ++i) {
    if (i < axis) outer *= static_cast<std::size_t>(whole.dims[i]);
    if (i > axis) inner *= static_cast<std::size_t>(whole.dims[i]);
  }
  const auto count = static_cast<std::size_t>(parts), which = static_cast<std::size_t>(part);
  std::size_t in_part = 0;
  for (std::size_t i = 0; i < outer; ++i) {
    std::size_t in_whole = i * static_cast<std::size_t>(whole.dims[axis]) * inner;
    for (const std::int64_t section : cut.sections) {
      const std::size_t piece = static_cast<std::size_t>(section) / count * inner;
      each(in_whole + which * piece, in_part, piece);
      in_whole += static_cast<std::size_t>(section) * inner;
      in_part += piece;
    }
  }
}

kernels::Shape part_shape(kernels::Shape whole, const Cut& cut, int parts) {
  whole.dims[static_cast<std::size_t>(cut.axis)] /= parts;
  return whole;
}

void require_fits(const kernels::Shape& whole, const Cut& cut) {
  std::int64_t size = 0;
  for (const std::int64_t section : cut.sections) size += section;
  if (cut.axis >= whole.rank || whole.dims[static_cast<std::size_t>(cut.axis)] != size)
    fail(ErrorKind::kCorrupt, "a tensor does not have the shape of the model's");
}

}  // namespace

const Cut* Partition::cut_of(std::string_view name) const {
  // States are named NAME.m; no parameter's name begins with another's and a dot.
  for (;;) {
    if (const auto found = cuts.find(name); found != cuts.end()) return &found->second;
    const std::size_t dot = name.rfind('.');
    if (dot == std::string_view::npos) return nullptr;
    name = name.substr(0, dot);
  }
}

Tensor part_of(const Tensor& whole, const Cut& cut, int parts, int part) {
  require_fits(whole.shape, cut);
  Tensor out{part_shape(whole.shape, cut, parts), {}};
  out.data.resize(out.shape.bytes());
  for_each_run(whole.shape, cut, parts, part, [&](std::size_t from, std::size_t to, std::size_t bytes) {
    std::memcpy(out.data.data() + to, whole.data.data() + from, bytes);
  });
  return out;
}

void put_part(Tensor& whole, const Cut& cut, int parts, int part, ByteView bytes) {
  require_fits(whole.shape, cut);
  if (bytes.size() != part_shape(whole.shape, cut, parts).bytes())
    fail(ErrorKind::kCorrupt, "a part of a tensor has {} bytes instead of {}", bytes.size(),
         part_shape(whole.shape, cut, parts).bytes());
  for_each_run(whole.shape, cut, parts, part, [&](std::size_t to, std::size_t from, std::size_t count) {
    std::memcpy(whole.data.data() + to, bytes.data() + from, count);
  });
}

kernels::Shape whole_shape(const kernels::Shape& part, const Cut& cut, int parts) {
  kernels::Shape whole = part;
  whole.dims[static_cast<std::size_t>(cut.axis)] *= parts;
  return whole;
}

}  // namespace mlx::graph
