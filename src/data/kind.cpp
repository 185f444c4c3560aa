// The table of kinds.

#include "data/kind.h"

#include <algorithm>
#include <array>

namespace mlx::data {

extern const Kind images_kind;  // kinds/images_dataset.cpp
extern const Kind rows_kind;    // kinds/rows_dataset.cpp
extern const Kind text_kind;    // kinds/text_dataset.cpp

namespace {

constexpr auto kKinds = std::to_array<const Kind*>({&images_kind, &rows_kind, &text_kind});

}  // namespace

std::span<const Kind* const> kinds() {
  return kKinds;
}

const Kind* kind_counting(std::string_view unit) {
  const auto found = std::ranges::find_if(kKinds, [&](const Kind* kind) { return kind->unit == unit; });
  return found == kKinds.end() ? nullptr : *found;
}

const char* name_of(TargetKind targets) {
  constexpr std::array<const char*, 4> kNames = {"class", "labels", "numbers", "tokens"};
  return kNames[static_cast<std::size_t>(targets)];
}

}  // namespace mlx::data
