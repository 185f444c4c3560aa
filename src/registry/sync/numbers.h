// Two clones that gave one number to different content: found after a fetch, settled by renumbering the local version.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "registry/repository.h"

namespace mlx::registry {

// Two clones that both made a v3 of an artifact: kConflict until `renumber` gives the local one the next free number.
struct Renumbered {
  std::string artifact;
  Digest digest;
  std::int64_t from = 0, to = 0;
};
std::vector<Renumbered> settle_numbers(Repository& repository, bool renumber);

}  // namespace mlx::registry
