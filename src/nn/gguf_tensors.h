// The tensors of a GGUF file, checked one by one. Used by gguf_model.cpp.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "formats/gguf.h"
#include "nn/gguf_blocks.h"

namespace mlx::nn {

struct GgufTensors {
  struct Tensor {
    const GgufType* type = nullptr;
    std::vector<std::int64_t> shape;  // outermost first; rows are whole blocks
    ByteView bytes;
    std::int64_t row() const { return shape.back(); }
    std::int64_t row_bytes() const { return row() / type->elements * type->bytes; }
  };
  formats::GgufMetadata metadata;  // views into the file
  std::map<std::string, Tensor> tensors;
  std::string place;                   // the file, for messages
  std::shared_ptr<const void> memory;  // its mapping
};

// Reads nothing but the header of `file`; `place` names it in messages. Throws kCorrupt, naming the file, if it is
// damaged, if a tensor is there twice, has impossible sizes or lies at no multiple of the alignment; kUsage for types
// that are not supported, with a list of those that are.
GgufTensors read_gguf_tensors(ByteView file, std::string place);
// The same of a file that is mapped.
GgufTensors open_gguf_tensors(const std::string& path);

}  // namespace mlx::nn
