// How the items of each kind are observed (observation.h), for the kinds' rows; and what those scans share.
#pragma once

#include <vector>

#include "data/division.h"
#include "data/observation.h"

namespace mlx::data {

extern const ItemScan images_scan;  // scan_images.cpp
extern const ItemScan rows_scan;    // scan_rows.cpp
extern const ItemScan text_scan;    // scan_text.cpp

// The files of a split, with their sizes.
template <typename Files>
void add_files(const Files& files, ScanFacts& facts) {
  for (const auto& file : files) facts.files.push_back(file.path), facts.bytes += file.size;
}

}  // namespace mlx::data
