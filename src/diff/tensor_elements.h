// Elements of stored tensors as numbers. Used by diff_tensors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace mlx::diff {

// Bytes of one element by safetensors' name of its dtype; 0 for dtypes that are not read as numbers (F8, F4 …).
std::size_t element_size(std::string_view dtype);
// `bytes` as numbers; 64-bit integers beyond 2^53 are rounded. `out` has room for bytes.size() / element_size().
void decode_elements(std::string_view dtype, ByteView bytes, double* out);
// "<f4" → "F32"; an unknown name is returned as it is.
std::string dtype_of_npy(std::string_view descr);

}  // namespace mlx::diff
