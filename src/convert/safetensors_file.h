// Safetensors files as other programs read them. Used by hugging_face_writer.cpp and peft_writer.cpp.
#pragma once

#include <string>
#include <vector>

#include "convert/outside_file.h"
#include "kernels/kernel.h"

namespace mlx::convert {

struct OutsideTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  kernels::DType dtype{};  // f32, f16, bf16
  std::function<Bytes()> make;

  std::uint64_t bytes() const;
};

// The tensors are written by size of their numbers and by name, so that all are aligned; the metadata says that they
// are those of PyTorch, without which some versions of `transformers` take no file.
OutsideFile safetensors_file(std::string name, std::vector<OutsideTensor> tensors);

}  // namespace mlx::convert
