// Kernel-table rows of convolution and its gradients; see op_list.h for the tensors.
#pragma once

#include "kernels/onednn/call.h"

namespace mlx::kernels::onednn {

extern const Kernel kConvKernel;                 // f32, bf16, and u8|s8 × s8 → f32|u8|s8
extern const Kernel kConvBackwardDataKernel;     // f32, bf16
extern const Kernel kConvBackwardWeightsKernel;  // f32, bf16

// Sizes of a convolution in oneDNN's terms.
struct Geometry {
  std::int64_t images = 0, height = 0, width = 0, channels = 0;  // of x
  std::int64_t out_height = 0, out_width = 0, out_channels = 0;  // of y
  std::int64_t groups = 1;
  Dims kernel, stride, before, after;  // height, width; padding before and after

  // From the shapes of x, w and y and the attributes. False if a size is zero or the shapes do not match.
  static bool of(const Shape& x, const Shape& w, const Shape& y, const Attrs& attrs, Geometry& geometry);

  double work() const;                              // floating point operations of one image
  Dims source(std::int64_t images_in_slice) const;  // N, C, H, W
  Dims destination(std::int64_t images_in_slice) const;
  Dims weights() const;                                    // (G,) O, C, KH, KW
  Desc plain_weights(dnnl::memory::data_type type) const;  // O, KH, KW, C in memory
};

}  // namespace mlx::kernels::onednn
