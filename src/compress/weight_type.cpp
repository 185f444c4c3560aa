// See weight_type.h.

#include "compress/weight_type.h"

#include <fmt/format.h>

#include <algorithm>

#include "compress/block_rounding.h"

namespace mlx::compress {
namespace {

std::string name_of_blocks(const kernels::BlockType& type) {
  std::string name = type.name;
  std::ranges::transform(name, name.begin(),
                         [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); });
  return name;
}

WeightType in_small_blocks(const kernels::BlockType& type) {
  switch (type.number) {
    case kernels::kQ6K:
      return {{8, kernels::kSmallBlock}, nullptr};
    case kernels::kQ5K:
      return {{}, kernels::find_block_type(kernels::kQ5_1)};
    case kernels::kQ4K:
      return {{}, kernels::find_block_type(kernels::kQ5_0)};
    default:
      return {{4, kernels::kSmallBlock}, nullptr};
  }
}

}  // namespace

std::string name_of(const WeightType& type) {
  return type.blocks ? name_of_blocks(*type.blocks) : fmt::format("int{}", type.groups.bits);
}
std::string name_of(const SharedLayer& layer) {
  return layer.blocks ? name_of_blocks(*layer.blocks) : fmt::format("int{}", layer.bits);
}

std::optional<WeightType> fitting(const WeightType& type, std::int64_t inputs) {
  if (inputs % type.unit() != 0) return std::nullopt;
  return type.blocks && inputs % type.blocks->weights != 0 ? in_small_blocks(*type.blocks) : type;
}

RoundedLayer round_as(const WeightType& type, const graph::Weight& from, const std::string& name, Pool& pool,
                      std::span<const float> importance) {
  return type.blocks ? round_blocks(*type.blocks, from, name, pool, importance)
                     : round_layer(from, name, type.groups, pool, importance);
}

}  // namespace mlx::compress
