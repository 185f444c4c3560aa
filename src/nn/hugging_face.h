// Models out of the folders that `transformers` writes and Hugging Face hosts.
#pragma once

#include <string>

#include "nn/model.h"

namespace mlx::nn {

struct OutsideModel {
  Model model;                          // of family "imported", without weights
  LateTensors weights;                  // as they are in the folder: F32, F16 or BF16
  std::size_t tensors = 0;              // of the folder
  std::vector<std::string> not_finite;  // tensors of the folder that hold NaN or infinity
};

bool is_hugging_face_folder(const std::string& folder);
// `context`: the longest sequence to take, 0 for the model's own. The folder's files must not change while the result
// is in use. Throws kUsage for what is not supported, naming it and what is; kCorrupt, kNotFound or kRefused, naming
// the file, for a folder that is not whole.
OutsideModel read_hugging_face(const std::string& folder, std::int64_t context);

}  // namespace mlx::nn
