// Checks what each node has written directly after it, before anything else reuses its memory.

#include "graph/session/not_finite.h"

#include <cstring>
#include <set>

namespace mlx::graph {

namespace {

// An exponent of all ones is infinity or NaN. Compares integers, so that the loop is vectorised without -ffast-math.
template <typename Bits, Bits kExponent>
bool no_exponent_full(ByteView numbers) {
  constexpr std::size_t kBlock = 4096;
  const std::size_t count = numbers.size() / sizeof(Bits);
  for (std::size_t begin = 0; begin < count; begin += kBlock) {
    Bits found = 0;
    const std::size_t end = begin + kBlock < count ? begin + kBlock : count;
    for (std::size_t i = begin; i < end; ++i) {
      Bits bits = 0;
      std::memcpy(&bits, numbers.data() + i * sizeof bits, sizeof bits);
      found |= static_cast<Bits>((bits & kExponent) == kExponent);
    }
    if (found != 0) return false;
  }
  return true;
}

}  // namespace

bool all_finite(ByteView numbers, DType dtype) {
  if (dtype == DType::kF32) return no_exponent_full<std::uint32_t, 0x7f800000>(numbers);
  if (dtype == DType::kBF16) return no_exponent_full<std::uint16_t, 0x7f80>(numbers);
  if (dtype == DType::kF16) return no_exponent_full<std::uint16_t, 0x7c00>(numbers);
  return true;
}

std::optional<NotFinite> find_not_finite(Session& session, const std::vector<Feed>& feeds, RunOptions options) {
  const Graph& graph = session.graph();
  // An earlier run of the same step may have made running statistics non-finite; no result of training reads them.
  std::set<ValueId> spoiled;
  for (const auto& [name, tensor] : session.tensors()) {
    if (all_finite(tensor.data, tensor.shape.dtype)) continue;
    const ValueId id = graph.find(name);
    if (graph.value(id).role == Role::kParameter) return NotFinite{{}, {}, name};
    spoiled.insert(id);
  }
  for (const Feed& feed : feeds) {
    const Value& value = graph.value(feed.value);
    std::size_t count = 1;
    for (const std::int64_t size : feed.dims) count *= static_cast<std::size_t>(size);
    const auto* bytes = static_cast<const std::uint8_t*>(feed.data);
    if (!all_finite({bytes, count * kernels::size_of(value.dtype)}, value.dtype)) return NotFinite{{}, {}, value.name};
  }
  std::optional<NotFinite> found;
  options.after = [&](std::size_t at) {
    const Node& node = graph.nodes[at];
    for (const ValueId id : node.outputs) {
      if (id == kNone || spoiled.contains(id)) continue;
      if (all_finite(session.value(id), graph.value(id).dtype)) continue;
      found = NotFinite{node.name, kernels::name_of(node.op), graph.value(id).name};
      return false;
    }
    return true;
  };
  session.run(feeds, options);
  return found;
}

std::string first_not_finite(const Tensors& tensors) {
  for (const auto& [name, tensor] : tensors) {
    if (!all_finite(tensor.data, tensor.shape.dtype)) return name;
  }
  return {};
}

}  // namespace mlx::graph
