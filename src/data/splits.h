// Which files of a version form which split, and what its classes are called: from dataset.toml where there is one,
// else from the files' names.
//
//   train-images-idx3-ubyte(.gz), train-labels-idx1-ubyte(.gz) → "train"; t10k or test → "test"; valid, validation or
//   val → "valid". What stands before ("emnist-digits-train-…") is ignored. Where a file lies there both plain and .gz,
//   the plain one is read.
//
//   dataset.toml   [classes]                            [splits.train]
//                  names = ["T-shirt", "Trouser", …]    images = "a/pictures.idx"
//                                                       labels = "a/labels.idx"
#pragma once

#include <map>
#include <string>
#include <vector>

#include "store/store.h"

namespace mlx::data {

struct SplitFiles {
  store::Entry images, labels;
};
struct Layout {
  std::map<std::string, SplitFiles> splits;
  std::vector<std::string> class_names;  // empty unless dataset.toml gives them
};

// kUsage with file and line for a dataset.toml that is wrong; kCorrupt where images have no labels or a split stands
// twice.
Layout find_layout(const store::Store& store, const Digest& manifest);

}  // namespace mlx::data
