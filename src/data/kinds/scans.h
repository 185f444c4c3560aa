// How the items of each kind are observed (observation.h), for the kinds' rows; and what those scans share.
#pragma once

#include <vector>

#include "data/division.h"
#include "data/observation.h"

namespace mlx::data {

extern const ItemScan images_scan;  // scan_images.cpp
extern const ItemScan rows_scan;    // scan_rows.cpp
extern const ItemScan text_scan;    // scan_text.cpp

// Which items of its files a split has: all unless it is a part of a division.
class InPart {
 public:
  InPart() = default;
  InPart(const std::vector<Part>& parts, Part part) : items_(items_of(parts, part)), all_(false) {}
  // Asked once for each item, in order.
  bool next() {
    const std::int64_t item = item_++;
    if (all_) return true;
    const bool in = at_ < items_.size() && items_[at_] == item;
    at_ += in ? 1 : 0;
    return in;
  }

 private:
  IndexSet items_;
  bool all_ = true;
  std::int64_t item_ = 0, at_ = 0;
};

// The files of a split, with their sizes.
template <typename Files>
void add_files(const Files& files, ScanFacts& facts) {
  for (const auto& file : files) facts.files.push_back(file.path), facts.bytes += file.size;
}

}  // namespace mlx::data
