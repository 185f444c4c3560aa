// The plan that linear and convolution share, forward and backward to the data: rows or images are cut into slices,
// each slice is one primitive over the whole of the packed weights, and no slice writes what another one does.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/onednn/call.h"

namespace mlx::kernels::onednn {

// A primitive for some number of items (rows, images) with what it wants where.
struct Parts {
  dnnl::primitive primitive;
  std::string implementation;
  Desc source, weights, bias, destination, scratchpad;  // bias: zero descriptor for none
  int source_argument = DNNL_ARG_SRC, destination_argument = DNNL_ARG_DST;
};

// What is cut, and how to make the primitive of one slice. `make` is given the layout of the weights that an earlier
// slice chose (null for the first); all slices read the same packed weights.
struct Sliceable {
  Cut slices;
  Desc plain_weights;  // as the caller has them; f32 that are packed as bf16 are rounded on the way
  int source_input = 0, weights_input = 1, bias_input = -1;
  std::vector<float> own_bias;  // used instead of bias_input where not empty
  std::function<Parts(const dnnl::engine&, std::int64_t items, const Desc* weights)> make;
};

// What products of a type can be done with: f32 or bf16 with itself. Weights stand in memory as f32.
inline bool is_real(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16;
}
// As what weights are multiplied with `factor`.
inline DType packed_type(const Shape& factor, const Shape& weights) {
  return factor.dtype == DType::kBF16 ? DType::kBF16 : weights.dtype;
}

// False where oneDNN has only its reference implementation, which is slower than ours.
bool prepare_sliced(const Sliceable& sliceable, Plan& plan);

}  // namespace mlx::kernels::onednn
