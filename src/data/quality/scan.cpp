// The common part of scans.

#include "data/quality/scan.h"

#include <utility>

#include "base/error.h"
#include "data/dataset.h"

namespace mlx::data {

StoredSplit scanned_split(const store::Store& store, const Digest& manifest, const std::string& split) {
  Reading reading;
  reading.any_model = true;
  return split_of(store, manifest, split, reading);
}

const ItemScan& item_scan(const StoredSplit& split) {
  if (!split.kind->scan) fail(ErrorKind::kUsage, "{} can be neither checked nor described", split.kind->name);
  return *split.kind->scan;
}

ScanFacts scan(const StoredSplit& split, const Observe& observe, Progress& progress) {
  ScanFacts facts;
  split.store->want(split.files);
  item_scan(split).run(split, observe, facts, progress);
  progress.end();
  return facts;
}

std::vector<std::uint64_t> numbers_of(const StoredSplit& split, std::vector<std::uint64_t> places) {
  const ItemScan& scan = item_scan(split);
  return scan.numbers && !places.empty() ? scan.numbers(split, std::move(places)) : places;
}

}  // namespace mlx::data
