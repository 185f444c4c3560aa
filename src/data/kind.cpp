// Names of kinds.

#include "data/kind.h"

#include <array>

namespace mlx::data {

const char* input_name(Kind kind) {
  constexpr std::array<const char*, 3> kNames = {"images", "features", "ids"};
  return kNames[static_cast<std::size_t>(kind)];
}

const char* unit_name(Kind kind) {
  constexpr std::array<const char*, 3> kNames = {"images", "rows", "tokens"};
  return kNames[static_cast<std::size_t>(kind)];
}

const char* name_of(TargetKind targets) {
  constexpr std::array<const char*, 4> kNames = {"class", "labels", "numbers", "tokens"};
  return kNames[static_cast<std::size_t>(targets)];
}

}  // namespace mlx::data
