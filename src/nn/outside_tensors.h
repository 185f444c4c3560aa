// The tensors of a Hugging Face folder: model.safetensors, or shards with an index. Used by hugging_face.cpp.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graph/weights.h"

namespace mlx::nn {

struct OutsideTensors {
  struct Tensor {
    std::string dtype;  // as the file says: "BF16", "F8_E4M3"
    std::vector<std::int64_t> shape;
    ByteView bytes;
    std::string place;  // the file, for messages
  };
  std::map<std::string, Tensor> tensors;
  std::vector<std::shared_ptr<const void>> memory;  // the mapped files
};

// The file `name` of the folder. Throws kRefused for a symbolic link that leaves the folder.
std::string file_inside(const std::string& folder, const std::string& name);
// Maps the files, and looks at nothing but their headers. Throws kCorrupt or kNotFound, naming the file, if one is
// missing or damaged, if a shard's name is not that of a file in the folder, if a tensor is there twice, or if index
// and shards disagree.
OutsideTensors open_outside_tensors(const std::string& folder);

}  // namespace mlx::nn
