// A table whose columns lie in arrays, one beside the other. Used by the readers of npy, npz and safetensors.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/readers/array_rows.h"

namespace mlx::data {

// Arrays become columns in the order in which they are added: an array of one dimension is a column with the array's
// name, and the columns of array x of two dimensions are x.1, x.2, x.3 …; an array without a name has the columns 1, 2,
// 3 …
class ArraysTable {
 public:
  explicit ArraysTable(const char* format) : format_(format) {}
  // kCorrupt if the array has not as many rows as those before it, or there are too many columns.
  void add(ArrayRows array, const std::string& name);
  // An array that is no table: named with the columns.
  void leave_out(const std::string& name, const std::string& why);
  bool empty() const { return arrays_.empty(); }
  // kCorrupt if two columns have one name.
  std::unique_ptr<TableReader> reader() &&;

 private:
  friend class ArraysReader;

  const char* format_;  // for messages
  std::vector<ArrayRows> arrays_;
  std::vector<std::string> columns_;
  std::string first_, left_out_;
  std::uint64_t rows_ = 0;
};

}  // namespace mlx::data
