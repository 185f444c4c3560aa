// A language model as a folder that `transformers` reads. Used by `mlx export model`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "convert/outside_file.h"
#include "convert/parts.h"
#include "kernels/kernel.h"
#include "nn/model.h"

namespace mlx::convert {

struct WriteOptions {
  std::optional<kernels::DType> dtype;  // of all weights; nullopt: as they are stored
  std::uint64_t shard = 5'000'000'000;  // bytes of weights in one file of a Hugging Face folder
  std::string base;                     // of adapters: what their config names
};

struct WrittenModel {
  std::vector<OutsideFile> files;
  std::string architecture;
  std::size_t tensors = 0;
  std::vector<std::string> warnings;
};

// `model`: as stored, with or without adapters, which are merged. `name`: its own, for messages. Throws as decoder_of
// does; kUsage too if it is quantized and `options` give no type.
WrittenModel hugging_face_folder(const nn::Model& model, const WriteOptions& options, const std::string& name);

}  // namespace mlx::convert
