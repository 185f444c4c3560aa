// The product of two matrices of any layout, C[m,n] = sum over k of a(m,k) · b(k,n), by tiles in shared memory and
// registers. a, b and the handling of sums are functions, so that linear layers, convolutions (as implicit products)
// and their gradients share it. Sums run over k in order. A product with long sums and few results is cut into parts of
// k, which are added in order. Used by linear.cu and conv.cu.
#pragma once

#include "kernels/cuda/cuda.h"

namespace mlx::kernels::cuda {

inline constexpr int kTile = 64, kDepth = 16;  // of a block: kTile × kTile results, kDepth of k at a time
inline constexpr int kOwn = 4;                 // of a thread: kOwn × kOwn results

struct ProductSize {
  std::int64_t m = 0, n = 0, k = 0, groups = 1;
  std::int64_t parts = 1;  // of k
};

// For few blocks and long sums: the number of parts, so that about kWanted blocks work, each on at least kLeast of k.
inline std::int64_t parts_of_k(const ProductSize& size) {
  constexpr std::int64_t kWanted = 512, kLeast = 512;
  const std::int64_t tiles = divide_up(size.m, kTile) * divide_up(size.n, kTile) * size.groups;
  if (tiles == 0) return 1;
  return std::clamp<std::int64_t>(std::min(kWanted / tiles, size.k / kLeast), 1, 256);
}

// T: float, or int for bytes. a(group, m, k), b(group, k, n), store(group, part, m, n, sum).
template <typename T, typename A, typename B, typename Store>
__global__ void product_kernel(ProductSize size, A a, B b, Store store) {
  constexpr int kAcross = kTile / kOwn;  // threads per row of the tile
  static_assert(kAcross * kAcross == kThreads);
  __shared__ T left[kDepth][kTile + 1], right[kDepth][kTile + 1];
  const std::int64_t tiles_n = (size.n + kTile - 1) / kTile;
  const std::int64_t top = blockIdx.x / tiles_n * kTile, first = blockIdx.x % tiles_n * kTile;
  const std::int64_t part = blockIdx.y, group = blockIdx.z;
  const std::int64_t begin = size.k * part / size.parts, end = size.k * (part + 1) / size.parts;
  const int row = threadIdx.x / kAcross, column = threadIdx.x % kAcross;
  T sums[kOwn][kOwn] = {};
  for (std::int64_t from = begin; from < end; from += kDepth) {
    for (int i = threadIdx.x; i < kDepth * kTile; i += kThreads) {
      const int k = i % kDepth, at = i / kDepth;
      left[k][at] = top + at < size.m && from + k < end ? a(group, top + at, from + k) : T{};
    }
    for (int i = threadIdx.x; i < kDepth * kTile; i += kThreads) {
      const int at = i % kTile, k = i / kTile;
      right[k][at] = first + at < size.n && from + k < end ? b(group, from + k, first + at) : T{};
    }
    __syncthreads();
    for (int k = 0; k < kDepth; ++k)
      for (int i = 0; i < kOwn; ++i)
        for (int j = 0; j < kOwn; ++j) sums[i][j] += left[k][row + i * kAcross] * right[k][column + j * kAcross];
    __syncthreads();
  }
  for (int i = 0; i < kOwn; ++i)
    for (int j = 0; j < kOwn; ++j) {
      const std::int64_t m = top + row + i * kAcross, n = first + column + j * kAcross;
      if (m < size.m && n < size.n) store(group, part, m, n, sums[i][j]);
    }
}

template <typename T, typename A, typename B, typename Store>
void product(const Args& args, const ProductSize& size, A a, B b, Store store) {
  const std::int64_t tiles = divide_up(size.m, kTile) * divide_up(size.n, kTile);
  launch(args, product_kernel<T, A, B, Store>, blocks(tiles, size.parts, size.groups), kThreads, size, a, b, store);
}

// The bytes of the parts of a product that has more than one.
inline std::size_t product_bytes(const ProductSize& size) {
  return size.parts < 2 ? 0 : sizeof(float) * static_cast<std::size_t>(size.parts * size.groups * size.m * size.n);
}

// The destination of the sums: out[group, m, n] if there is only one part, else parts[part, group, m, n].
struct PartSums {
  float* to = nullptr;
  std::int64_t all = 0, plane = 0, width = 0;
  __device__ void operator()(std::int64_t group, std::int64_t part, std::int64_t m, std::int64_t n, float sum) const {
    to[part * all + group * plane + m * width + n] = sum;
  }
};
inline PartSums part_sums(const ProductSize& size, float* parts, float* out) {
  const std::int64_t plane = size.m * size.n;
  return {size.parts < 2 ? out : parts, size.groups * plane, plane, size.n};
}
inline void add_parts(const Args& args, const ProductSize& size, const float* parts, float* out) {
  const std::int64_t all = size.groups * size.m * size.n, count = size.parts;
  if (count < 2) return;
  each(args, all, [=] __device__(std::int64_t i) {
    float sum = parts[i];
    for (std::int64_t part = 1; part < count; ++part) sum += parts[part * all + i];
    out[i] = sum;
  });
}

// A product whose sums go to out[group, m, n], in parts if the size says so. `parts` has product_bytes(size).
template <typename A, typename B>
void product_in_parts(const Args& args, const ProductSize& size, A a, B b, float* parts, float* out) {
  product<float>(args, size, a, b, part_sums(size, parts, out));
  add_parts(args, size, parts, out);
}

// Weights stored as f32 or in the activations' type. In f32 they are rounded to that type when they are read.
struct Weights {
  Reals stored;
  DType factor = DType::kF32;
  __device__ float operator[](std::int64_t i) const {
    return stored.type == factor ? stored[i] : rounded_to(factor, stored[i]);
  }
};
inline Weights weights_in(const State& s, const Args& args) {
  return {reals_in(s, args, 1, s.g.w_type), s.g.x_type};
}

// A tensor that is needed in another type than its own: it is cast into the workspace before each product.
struct Recast {
  std::int64_t count = 0;
  DType from = DType::kF32, to = DType::kF32;
  std::size_t bytes() const { return from == to ? 0 : static_cast<std::size_t>(count) * size_of(to); }
};
// The tensor as recast.to: itself, or a copy in `memory` of recast.bytes().
inline const void* recast_to(const Args& args, const Recast& recast, const void* tensor, void* memory) {
  if (recast.from == recast.to) return tensor;
  const Reals from{tensor, recast.from};
  const RealsOut to{memory, recast.to};
  each(args, recast.count, [=] __device__(std::int64_t i) { to.store(i, from[i]); });
  return memory;
}

// Epilogue of a forward pass: y[row, column] = act(sum · scales + bias).
struct Epilogue {
  const float *bias = nullptr, *scales = nullptr;  // by column; scales: those of quantized weights
  float scale_x = 1.0f, scale_y = 1.0f;
  Activation activation = Activation::kNone;
  bool quantized = false, to_bytes = false;
  RealsOut y;
  BytesOut bytes;
  template <typename T>
  __device__ void store(std::int64_t i, std::int64_t column, T sum) const {
    const float real = quantized ? static_cast<float>(sum) * (scale_x * scales[column]) : static_cast<float>(sum);
    const float value = activate(activation, real + (bias ? bias[column] : 0.0f));
    if (to_bytes)
      bytes.store(i, value / scale_y);
    else
      y.store(i, value);
  }
};
inline Epilogue epilogue_of(const State& s, const Args& args) {
  Epilogue e;
  e.bias = f32_in(&s, args, 2);
  e.scales = s.g.quantized ? f32_in(&s, args, 3) : nullptr;
  e.scale_x = s.attrs.scale_x, e.scale_y = s.attrs.scale_y;
  e.activation = s.attrs.activation;
  e.quantized = s.g.quantized;
  e.to_bytes = s.g.y_type == DType::kU8 || s.g.y_type == DType::kS8;
  e.y = reals_out(s, args, 0, s.g.y_type);
  e.bytes = {args.outputs[0], s.g.y_type == DType::kS8};
  return e;
}

// Epilogue that stores gelu's pre-activation: pre = sum + bias, y = gelu(pre).
struct GeluBesidePre {
  const float* bias = nullptr;  // by column
  RealsOut pre, y;
  __device__ float bias_of(std::int64_t column) const { return bias ? bias[column] : 0.0f; }
  __device__ void store(std::int64_t i, float sum, float bias_there) const {
    pre.store(i, sum + bias_there);
    y.store(i, gelu(sum + bias_there));
  }
};
inline GeluBesidePre gelu_beside_pre_of(const State& s, const Args& args) {
  return {f32_in(&s, args, 2), reals_out(s, args, 1, s.g.y_type), reals_out(s, args, 0, s.g.y_type)};
}

// Epilogue for the gradient of a linear layer whose input was gelu(pre): dx[i] = sum · gelu'(pre[i]).
struct GeluGradient {
  RealsOut dx;
  Reals pre;
  __device__ void store(std::int64_t i, float sum, float before) const { dx.store(i, sum * gelu_slope(before)); }
};
inline GeluGradient gelu_gradient_of(const State& s, const Args& args) {
  return {reals_out(s, args, 0, s.g.y_type), reals_in(s, args, 2, s.g.y_type)};
}

// Sums each column of dy[rows, columns]: a layer's bias gradient. `parts` has column_bytes(rows, columns).
void bias_gradient(const Args& args, std::int64_t rows, std::int64_t columns, Reals dy, Pair* parts, float* db);

}  // namespace mlx::kernels::cuda
