// Which photos a split has, and their labels: from class folders (train/cat/1.jpg), from a table beside them, or from
// tar shards (photo_shards.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/kinds/photo_file.h"
#include "data/splits.h"

namespace mlx::data {

// Photos in the order of a split's examples: of class folders sorted by path, of a table by its rows, of shards by path
// and then as they stand in the shard.
struct PhotoList {
  std::vector<PhotoFile> files;
  std::vector<std::int32_t> labels;
  std::vector<std::string> classes;  // reading.classes, else as in dataset.toml, else the sorted labels of the split
};

// A split's files are photos, shards, or a table and the photos that it may name.
bool holds_photos(const StoredSplit& split);
void find_photo_splits(const Files& files, Layout& layout);
// Of `images = "FOLDER"` in dataset.toml, with `labels = "TABLE"`, class folders, or shards.
std::vector<store::Entry> declared_photos(TomlReader& split, const std::string& folder, const Files& files);
// Of `images = ["1.tar", "2.tar"]`, or the name of one shard.
std::vector<store::Entry> declared_shards(TomlReader& split, const std::vector<std::string>& paths, const Files& files);

// Reads the table, or the shards' headers and labels, but no photo, unless the rule of a part draws by what is in
// shards. Throws kUsage for a label that is none of the known classes, and for photos without a label or with two;
// kCorrupt for a table that names photos that are not there.
PhotoList list_photos(const StoredSplit& split, const std::vector<std::string>& classes);
// Only the files: labels may be missing.
std::vector<PhotoFile> photos_of(const StoredSplit& split);
// Hashes of the photos' content; of shards, which do not tell, only if their photos may be read.
std::vector<std::uint64_t> contents_listed(const StoredSplit& split, bool read);

}  // namespace mlx::data
