// Checks what each node has written directly after it, before anything else reuses its memory.

#include "graph/session/not_finite.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

namespace mlx::graph {

namespace {

// An exponent of all ones is infinity or NaN: one more carries into the sign bit. Vectors of integers (an extension of
// gcc and clang), because neither vectorises such a loop of floats without -ffast-math. Of 16 bytes, since wider ones
// do not stay in registers without AVX; four variables, since each sum waits for the one before it.
template <typename Bits, Bits kExponent>
bool no_exponent_full(ByteView numbers) {
  using Block [[gnu::vector_size(16)]] = Bits;
  constexpr Bits kOne = kExponent & (~kExponent + 1), kSign = kExponent + kOne;
  const auto carried = [](const std::uint8_t* from, std::size_t size) {
    Block block{};
    std::memcpy(&block, from, size);
    return (block & kExponent) + kOne;
  };
  constexpr std::size_t kSize = sizeof(Block);
  const std::uint8_t* at = numbers.data();
  std::size_t left = numbers.size();
  Block a{}, b{}, c{}, d{};
  for (; left >= 4 * kSize; left -= 4 * kSize, at += 4 * kSize) {
    a |= carried(at, kSize);
    b |= carried(at + kSize, kSize);
    c |= carried(at + 2 * kSize, kSize);
    d |= carried(at + 3 * kSize, kSize);
  }
  for (; left >= kSize; left -= kSize, at += kSize) a |= carried(at, kSize);
  Block found = a | b | c | d;
  if (left > 0) found |= carried(at, left);
  std::array<Bits, kSize / sizeof(Bits)> all;
  std::memcpy(all.data(), &found, sizeof all);
  return std::ranges::none_of(all, [](Bits bits) { return (bits & kSign) != 0; });
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
