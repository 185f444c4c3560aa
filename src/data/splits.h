// Which files of a version form which split, and the names of its classes: from dataset.toml if there is one, else from
// the files' names (mlx-format-dataset(5)).
//
//   images  train-images-idx3-ubyte(.gz), train-labels-idx1-ubyte(.gz); any prefix ("emnist-digits-train-…") is ignored
//   rows    train.csv, train.tsv, train.jsonl, each plain or .gz; a single such file of another name is "train"
//   text    train.txt(.gz), or all of train/*.txt concatenated; a single such file of another name is "train"
//
// t10k and test are the split "test"; valid, validation and val are "valid". Images take precedence over rows, and rows
// over text. If a file is there both plain and as .gz, the plain one is read.
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

// Throws kUsage with file and line for a wrong dataset.toml; kCorrupt if images have no labels or a split occurs twice.
Layout find_layout(const store::Store& store, const Digest& manifest);
// The files of one split. Throws kNotFound, naming the splits there are.
const SplitFiles& files_of(const Layout& layout, const Digest& manifest, const std::string& split);
std::vector<std::string> names_of(const Layout& layout);

}  // namespace mlx::data
