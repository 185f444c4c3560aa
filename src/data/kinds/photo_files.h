// Which photos a split has, and their labels: from class folders (train/cat/1.jpg) or from a table beside them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/splits.h"

namespace mlx::data {

// Photos in the order of a split's examples: of class folders sorted by path, of a table by its rows.
struct PhotoList {
  std::vector<store::Entry> files;
  std::vector<std::int32_t> labels;
  std::vector<std::string> classes;  // reading.classes, else as in dataset.toml, else the sorted labels of the split
};

// A split's files are photos, or a table and the photos that it may name.
bool holds_photos(const StoredSplit& split);
void find_photo_splits(const Files& files, Layout& layout);
// Of `images = "FOLDER"` in dataset.toml, with `labels = "TABLE"` or class folders.
std::vector<store::Entry> declared_photos(TomlReader& split, const std::string& folder, const Files& files);

// Reads the table, if there is one, but no photo. Throws kUsage for a label that is none of the known classes, and for
// photos without a label or with two; kCorrupt for a table that names photos that are not there.
PhotoList list_photos(const StoredSplit& split, const std::vector<std::string>& classes);
// Only the files: labels may be missing.
std::vector<store::Entry> photos_of(const StoredSplit& split);

}  // namespace mlx::data
