// Small pictures of a split's images, for a page about the dataset: some of each class, and pairs that look alike.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/progress.h"
#include "data/quality/statistics.h"
#include "data/splits.h"

namespace mlx::data {

struct Thumbnail {
  std::uint64_t number = 0;
  std::string label;
  Bytes png;
};

struct Pictures {
  std::vector<Thumbnail> samples;                      // by class, spread evenly over each
  std::vector<std::pair<Thumbnail, Thumbnail>> alike;  // of the split's nearly equal images, the first ones
};

// Nothing for splits of other kinds. Of photos only these are decoded.
Pictures pictures_of(const StoredSplit& split, const SplitStatistics& statistics, Progress& progress);

}  // namespace mlx::data
