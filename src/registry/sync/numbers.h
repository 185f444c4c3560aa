// Number conflicts: two clones gave one number to different content. Found after a fetch, resolved by renumbering the
// local version.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "registry/repository.h"

namespace mlx::registry {

// If two clones both made a v3 of an artifact, it is kConflict until `renumber` gives the local one the next free
// number.
struct Renumbered {
  std::string artifact;
  Digest digest;
  std::int64_t from = 0, to = 0;
};
std::vector<Renumbered> settle_numbers(Repository& repository, bool renumber);

}  // namespace mlx::registry
