// The sizes of a problem as plain numbers, checked once: a kernel of any backend can rely on what describe() accepted.
// Used by table.cpp before any kernel sees a problem, and by the kernels of ref and simd.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/kernel.h"
#include "kernels/loops.h"

namespace mlx::kernels {

inline constexpr int kMaxTensors = 8;
inline constexpr std::int64_t kFewChannels = 4;      // images with at most this many have their own f32 convolutions
inline constexpr std::int64_t kMostConvKernel = 11;  // the largest height and width that kernels/simd supports

// The operation determines which fields are set. No std:: types, so that code of any instruction set can read it.
struct Geometry {
  std::int64_t count = 0;                   // elements of input 0
  std::int64_t rows = 0, width = 0;         // input 0 seen as a matrix; width is its last dim
  std::int64_t out_width = 0;               // linear: N
  std::int64_t in_width = 0;                // linear: K
  std::int64_t n = 0, h = 0, w = 0, c = 0;  // images: the plain side (x, dx)
  std::int64_t oh = 0, ow = 0, o = 0;       // the other side (y, dy)
  std::int64_t kh = 1, kw = 1, sh = 1, sw = 1, pt = 0, pl = 0, groups = 1;
  std::int64_t batch = 0, time = 0, dim = 0, heads = 1;  // sequences; dim is D
  std::int64_t kv_heads = 1, kv_dim = 0, head = 0;       // attention: key heads, their total width, one head's width
  std::int64_t table = 0;                                // rows of a table, or positions of a sequence in a cache
  std::int64_t block = 0, blocks = 0;                    // of a cache: positions of a block, and how many there are
  Loops loops, inner;                                    // primitive operations: each file documents what they walk
  std::int64_t offset = 0, elements = 0;
  int parts = 0;  // batch norm: ranks. concat: the number of parts; elements of each part in a row of the whole, and
                  // where they begin
  std::int64_t part_size[kMaxTensors] = {}, part_begin[kMaxTensors] = {};
  // Weights in blocks: `parts` runs of part_size rows, whose bytes begin at part_begin; the number of each one's type,
  // and how many rows are before it.
  std::int64_t part_type[kMaxTensors] = {}, part_row[kMaxTensors] = {};
  std::int64_t layout[1 + 2 * kMaxTensors] = {};  // what packing them depends on
  DType index_type = DType::kS32;                 // gather
  bool has_input[kMaxTensors] = {}, has_output[kMaxTensors] = {};
  bool quantized = false;                             // x is u8 or s8
  bool has_pre = false;                               // linear: output 1, backward data: input 2, the pre-activation
  DType x_type = DType::kF32, y_type = DType::kF32;   // of input 0 and output 0
  DType dy_type = DType::kF32, w_type = DType::kF32;  // of input 1 if it is a gradient, or weights
  DType gradient_type = DType::kF32;                  // of output 1 if it is the gradient that a loss computes
  DType residual_type = DType::kF32;                  // of the residual that a norm adds to x
  DType cache_type = DType::kF32;                     // of keys and values in a cache
};

// True if one of the problem's tensors has this dtype.
bool has_dtype(const Problem& problem, DType dtype);

// Checks ranks, sizes and dtypes against op_list.h. Returns "" or what is wrong ("input 1 must be [64, 32]").
std::string describe(const Problem& problem, Geometry& geometry);

}  // namespace mlx::kernels
