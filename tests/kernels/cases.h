// Shared by the lists of problems: tensors and attributes in few words. Used by cases*.cpp.
#pragma once

#include <vector>

#include "harness.h"

namespace mlx::kernels::test {

using Dims = std::vector<std::int64_t>;
using Cases = std::vector<Case>;

inline const std::vector<std::int64_t> kCounts = {0, 1, 15, 16, 17, 63, 64, 65, 1000, 40000};
inline const std::vector<std::int64_t> kWidths = {1, 15, 16, 17, 31, 33, 48, 64, 65, 130};

inline Tensor random(Dims dims, std::uint64_t seed) {
  return uniform(std::move(dims), -2.0f, 2.0f, seed);
}

struct WindowCase {
  Dims x;
  std::int64_t kernel, stride, pad;
};

inline std::int64_t windows(std::int64_t size, const WindowCase& w) {
  return (size + 2 * w.pad - w.kernel) / w.stride + 1;
}

inline Attrs window_attrs(const WindowCase& w) {
  Attrs attrs;
  attrs.kernel = {w.kernel, w.kernel}, attrs.stride = {w.stride, w.stride}, attrs.pad = {w.pad, w.pad, w.pad, w.pad};
  return attrs;
}

// int8: weights have scales per channel; y's scale keeps most results within its range.
inline Attrs quantized_attrs(Attrs attrs, DType y) {
  attrs.scale_x = 0.02f, attrs.scale_y = y == DType::kU8 ? 0.05f : 0.1f;
  return attrs;
}

// Sets a few elements to NaN, infinities and denormals; also to numbers near the largest, unless they would dominate a
// sum.
Tensor odd(Tensor tensor, float huge = 3e38f);

// An output of a case, computed by ref, for its backward.
Tensor output_of(const Case& forward, std::size_t output);

void convolutions(Cases& cases);
void losses(Cases& cases);  // and softmax
void residual_norms(Cases& cases);
void in_half(Cases& cases);  // and in tf32
void images(Cases& cases);   // from bytes
void in_groups(Cases& cases);
void in_blocks(Cases& cases);
void primitives(Cases& cases);

}  // namespace mlx::kernels::test
