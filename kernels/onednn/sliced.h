// The plan shared by linear, convolution and their gradients to the data. Rows or images are cut into slices; each
// slice is one primitive with all of the packed weights. No two slices write the same element.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/onednn/call.h"

namespace mlx::kernels::onednn {

// A primitive for some number of items (rows, images), and the layouts that it wants.
struct Parts {
  dnnl::primitive primitive;
  std::string implementation;
  Desc source, weights, bias, destination, scratchpad;  // bias: zero descriptor if absent
  int source_argument = DNNL_ARG_SRC, destination_argument = DNNL_ARG_DST;
};

// What is cut, and how to make the primitive of one slice. `make` receives the weight layout that an earlier slice
// chose (null for the first slice): all slices read the same packed weights.
struct Sliceable {
  Cut slices;
  Desc plain_weights;  // the caller's layout; f32 weights packed as bf16 are rounded
  int source_input = 0, weights_input = 1, bias_input = -1;
  std::vector<float> own_bias;  // used instead of bias_input if not empty
  std::function<Parts(const dnnl::engine&, std::int64_t items, const Desc* weights)> make;
};

// The types of factors: f32 with f32, or bf16 with bf16. Weights are stored as f32.
inline bool is_real(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16;
}
// The type that weights are packed as to be multiplied with `factor`.
inline DType packed_type(const Shape& factor, const Shape& weights) {
  return factor.dtype == DType::kBF16 ? DType::kBF16 : weights.dtype;
}

// False if oneDNN has only its reference implementation, which is slower than ours.
bool prepare_sliced(const Sliceable& sliceable, Plan& plan);

}  // namespace mlx::kernels::onednn
