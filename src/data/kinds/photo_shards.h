// Tar shards of samples (WebDataset's layout) as a source of photos: a sample is a run of members whose paths are equal
// up to the first dot of the file's name, one of them the photo and one its label.
#pragma once

#include <string>
#include <vector>

#include "data/kinds/photo_file.h"
#include "data/splits.h"
#include "formats/tar.h"

namespace mlx::data {

// By its name: a tar file, also a compressed one, which samples_of() refuses.
bool is_shard(std::string_view path);
// "train" for train-000001.tar, train-00001-of-00010.tar and train/1.tar; "" if the name says none.
std::string split_of_shard(std::string_view path);
// Shards below a folder ("" or "shards/"), sorted by path.
std::vector<store::Entry> shards_below(const std::string& root, const Files& files);
// Shards that are named like splits, or else all of them for training.
void find_shard_splits(const Files& files, Layout& layout);

// Reads the headers of the split's shards and the members that hold labels, but no photo. A label is the member .cls,
// the key "label" or "class" of the member .json, the member .txt, or, if no sample has one, the class folder in the
// photo's path. Throws kCorrupt or kUsage, with shard and member, for damaged and compressed shards and for samples
// without a photo, with two, without a label, or that are not in one place.
LabelledPhotos samples_of(const StoredSplit& split, bool with_labels);

// The photos in a tar file outside of datasets, with or without labels: every member that is a picture by its name or
// its first bytes, in order. Throws as samples_of() for damaged and compressed files.
std::vector<formats::TarMember> photos_in_tar(const formats::TarRead& read, std::uint64_t size,
                                              const std::string& name);

}  // namespace mlx::data
