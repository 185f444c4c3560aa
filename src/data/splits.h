// Which files of a version form which split, and what its classes are called: from dataset.toml where there is one,
// else from the files' names (mlx-format-dataset(5)).
//
//   images  train-images-idx3-ubyte(.gz), train-labels-idx1-ubyte(.gz); what stands before ("emnist-digits-train-…") is
//           ignored
//   rows    train.csv, train.tsv, train.jsonl, each plain or .gz; else the only such file is the split "train"
//   text    train.txt(.gz), or all of train/*.txt one behind another; else the only such file is the split "train"
//
// t10k and test are the split "test"; valid, validation and val are "valid". Images are looked for first, then rows,
// then text. Where a file lies there both plain and .gz, the plain one is read.
//
//   dataset.toml   [classes]                            [splits.train]
//                  names = ["T-shirt", "Trouser", …]    images = "a/pictures.idx"
//                                                       labels = "a/labels.idx"
//                  or in a split: rows = "a/table.csv", or text = ["a.txt", "b.txt"]
#pragma once

#include <map>
#include <string>
#include <vector>

#include "data/kind.h"
#include "store/pack/store.h"

namespace mlx::data {

struct SplitFiles {
  Kind kind = Kind::kImages;
  store::Entry images, labels;     // of images
  store::Entry rows;               // of features
  std::vector<store::Entry> text;  // of tokens, in order
};
struct Layout {
  std::map<std::string, SplitFiles> splits;
  std::vector<std::string> class_names;  // empty unless dataset.toml gives them
};

// kUsage with file and line for a dataset.toml that is wrong; kCorrupt where images have no labels or a split stands
// twice.
Layout find_layout(const store::Store& store, const Digest& manifest);
// The files of one split; kNotFound naming those there are.
const SplitFiles& files_of(const Layout& layout, const Digest& manifest, const std::string& split);
std::vector<std::string> names_of(const Layout& layout);

}  // namespace mlx::data
