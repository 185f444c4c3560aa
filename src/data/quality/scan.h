// Runs the scan of a split's kind (observation.h).
#pragma once

#include <cstdint>
#include <vector>

#include "data/observation.h"

namespace mlx::data {

// The split of the kind as which it is scanned: conversations are text, though their file is a table.
StoredSplit scanned_split(const store::Store& store, const Digest& manifest, const std::string& split);
// Of the split's kind; throws kUsage if it has none.
const ItemScan& item_scan(const StoredSplit& split);
ScanFacts scan(const StoredSplit& split, const Observe& observe, Progress& progress);
// The numbers of places as people count them: lines from 1, images from 0. `places` may be in any order.
std::vector<std::uint64_t> numbers_of(const StoredSplit& split, std::vector<std::uint64_t> places);

}  // namespace mlx::data
