// Differences between the tensors of two files (safetensors, npy). Used by diff_files.
//
// Tensors are paired by name. All cores stream both files; parts with the same chunks in both versions are not
// compared. Sums are added in a fixed order: the results do not depend on the number of threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/parallel.h"
#include "base/progress.h"
#include "diff/readers.h"
#include "formats/safetensors.h"

namespace mlx::diff {

struct TensorFile {
  OpenSource open;
  std::vector<formats::SafetensorsEntry> tensors;
};
bool holds_tensors(std::string_view path);  // by its name
// Reads only the header. kCorrupt if it is wrong.
TensorFile read_tensor_file(const OpenSource& open, std::string_view path, std::uint64_t size);

struct TensorChange {
  enum class Kind { kAdded, kRemoved, kReshaped, kChanged } kind = Kind::kChanged;
  std::string name;
  std::string dtype_before, dtype_after;
  std::vector<std::int64_t> shape_before, shape_after;
  // For kChanged, and only for numbers (`compared`). 8-bit weights are multiplied by their scales (the tensor
  // NAME_scale, one for each row), so that a quantized tensor can be compared with its original.
  bool compared = false;
  std::uint64_t elements = 0, changed = 0;
  std::uint64_t not_finite = 0;  // of `changed`: one of the two is NaN or infinite; not counted below
  double norm_before = 0;        // L2, over finite elements
  double norm_difference = 0;
  double largest = 0;  // magnitude of a difference
  double share() const { return elements ? static_cast<double>(changed) / static_cast<double>(elements) : 0; }
};

struct TensorsDiff {
  std::vector<TensorChange> tensors;  // those that differ, in the order of the file
  std::uint64_t same = 0;             // tensors that are the same in both
  std::uint64_t elements_before = 0, elements_after = 0;
};

TensorsDiff diff_tensors(const TensorFile& before, const TensorFile& after, Pool& pool, Progress& progress);

}  // namespace mlx::diff
