// Shared by all CUDA kernels: launching, elements stored as f32, bf16 or f16, and sums over warps, blocks and columns.
// Used by kernels/cuda only. The sources are CUDA for nvcc, and C++ for the emulation (kernels/cuda_emulation) that
// runs them on the host in tests.
//
// A plan has one phase of one slice, which launches kernels on args.stream and returns. Blocks are one-dimensional. The
// order of every sum is fixed by the shape alone: there are no atomics, and nothing depends on the number of
// processors.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "kernels/half.h"
#include "kernels/plan.h"

namespace mlx::kernels::cuda {

inline constexpr int kWarp = 32;
inline constexpr int kThreads = 256;               // per block
inline constexpr std::int64_t kMostBlocks = 4096;  // for elementwise work; threads loop over the rest

inline const State& state_of(const void* state) {
  return *static_cast<const State*>(state);
}

inline constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

// An empty grid is not launched. The device's check finds a launch that failed (kernels/device.h). `shared_bytes`: the
// size of block_memory() (ptx.h), up to kMostShared.
inline constexpr std::size_t kMostShared = std::size_t{99} << 10;  // per block, on every chip from 8.0 on
template <typename... Expected, typename... Actual>
void launch_with(const Args& args, std::size_t shared_bytes, void (*kernel)(Expected...), dim3 grid, int threads,
                 Actual&&... actual) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return;
  constexpr std::size_t kWithoutAsking = std::size_t{48} << 10;
  if (shared_bytes > kWithoutAsking)
    static_cast<void>(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)));
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(args.stream);
  static_cast<void>(cudaLaunchKernelEx(&config, kernel, static_cast<Expected>(actual)...));
}
template <typename... Expected, typename... Actual>
void launch(const Args& args, void (*kernel)(Expected...), dim3 grid, int threads, Actual&&... actual) {
  launch_with(args, 0, kernel, grid, threads, std::forward<Actual>(actual)...);
}

inline dim3 blocks(std::int64_t x, std::int64_t y = 1, std::int64_t z = 1) {
  return dim3(static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z));
}

template <typename Body>
__global__ void each_kernel(std::int64_t count, Body body) {
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * blockDim.x)
    body(i);
}

// Runs body(i) for i in 0 … count-1, in parallel.
template <typename Body>
void each(const Args& args, std::int64_t count, Body body) {
  launch(args, each_kernel<Body>, blocks(std::min(divide_up(count, kThreads), kMostBlocks)), kThreads, count, body);
}

// The conversions of kernels/half.h with the GPU's own instructions if it has them (PTX ISA, section cvt). They give
// the same numbers; NaN becomes the GPU's NaN.
__device__ inline float from_half(BF16 x) {
  return widen(x);
}
__device__ inline float from_half(F16 x) {
#ifdef __CUDA_ARCH__
  float widened;
  asm("cvt.f32.f16 %0, %1;" : "=f"(widened) : "h"(x.bits));
  return widened;
#else
  return widen(x);
#endif
}
__device__ inline void to_half(float x, BF16* to) {
#ifdef __CUDA_ARCH__
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to->bits) : "f"(x));
#else
  *to = to_bf16(x);
#endif
}
__device__ inline void to_half(float x, F16* to) {
#ifdef __CUDA_ARCH__
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to->bits) : "f"(x));
#else
  *to = to_f16(x);
#endif
}
// Rounds x to `type`.
__device__ inline float rounded_to(DType type, float x) {
  if (type == DType::kBF16) {
    BF16 half;
    to_half(x, &half);
    return from_half(half);
  }
  if (type == DType::kF16) {
    F16 half;
    to_half(x, &half);
    return from_half(half);
  }
  return x;
}

// Elements computed in f32 and stored as f32, bf16 or f16. Null if the tensor is absent.
struct Reals {
  const void* data = nullptr;
  DType type = DType::kF32;
  __device__ float operator[](std::int64_t i) const {
    if (type == DType::kBF16) return from_half(static_cast<const BF16*>(data)[i]);
    if (type == DType::kF16) return from_half(static_cast<const F16*>(data)[i]);
    return static_cast<const float*>(data)[i];
  }
};
struct RealsOut {
  void* data = nullptr;
  DType type = DType::kF32;
  __device__ void store(std::int64_t i, float value) const {
    if (type == DType::kBF16)
      to_half(value, static_cast<BF16*>(data) + i);
    else if (type == DType::kF16)
      to_half(value, static_cast<F16*>(data) + i);
    else
      static_cast<float*>(data)[i] = value;
  }
};
inline Reals reals_in(const State& s, const Args& args, int i, DType type) {
  return {s.g.has_input[i] ? args.inputs[i] : nullptr, type};
}
inline RealsOut reals_out(const State& s, const Args& args, int i, DType type) {
  return {s.g.has_output[i] ? args.outputs[i] : nullptr, type};
}

// Elements stored as u8 or s8. Storing rounds to nearest even and saturates; NaN becomes 0.
struct Bytes {
  const void* data = nullptr;
  bool is_signed = false;
  __device__ int operator[](std::int64_t i) const {
    return is_signed ? int{static_cast<const std::int8_t*>(data)[i]} : int{static_cast<const std::uint8_t*>(data)[i]};
  }
};
struct BytesOut {
  void* data = nullptr;
  bool is_signed = false;
  __device__ void store(std::int64_t i, float value) const {
    const float rounded = value == value ? rintf(value) : 0.0f;
    const float low = is_signed ? -128.0f : 0.0f, high = is_signed ? 127.0f : 255.0f;
    const int kept = static_cast<int>(rounded < low ? low : rounded > high ? high : rounded);
    if (is_signed)
      static_cast<std::int8_t*>(data)[i] = static_cast<std::int8_t>(kept);
    else
      static_cast<std::uint8_t*>(data)[i] = static_cast<std::uint8_t>(kept);
  }
};

// gelu: Hendrycks & Gimpel 2016, the tanh form. Beyond ±kGeluEnd it equals its limits, 0 and x.
inline constexpr float kGeluEnd = 20.0f, kGeluRoot = 0.7978845608028654f, kGeluCubic = 0.044715f;
__device__ inline float gelu(float x) {
  if (x < -kGeluEnd || x > kGeluEnd) return x > 0.0f ? x : 0.0f;
  return 0.5f * x * (1.0f + tanhf(kGeluRoot * (x + kGeluCubic * x * x * x)));
}
__device__ inline float gelu_slope(float x) {  // its gradient
  if (x < -kGeluEnd || x > kGeluEnd) return x > 0.0f ? 1.0f : 0.0f;
  const float t = tanhf(kGeluRoot * (x + kGeluCubic * x * x * x));
  return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * kGeluRoot * (1.0f + 3.0f * kGeluCubic * x * x);
}
__device__ inline float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return x < 0.0f ? 0.0f : x;  // NaN stays NaN
    case Activation::kGelu:
      return gelu(x);
    case Activation::kRelu6:
      return x < 0.0f ? 0.0f : x > 6.0f ? 6.0f : x;
  }
  return x;
}
// True if relu or relu6 pass the gradient on, given their output y.
__device__ inline bool passes(Activation activation, float y) {
  return y > 0.0f && (activation != Activation::kRelu6 || y < 6.0f);
}

// The sum over the warp, with the same bits in every lane: each step of the butterfly adds the same two numbers in both
// of their lanes.
template <typename T>
__device__ inline T warp_sum(T value) {
  for (int apart = kWarp / 2; apart > 0; apart /= 2) value += __shfl_xor_sync(0xffffffffu, value, apart);
  return value;
}
__device__ inline float warp_max(float value) {  // ignores NaN
  for (int apart = kWarp / 2; apart > 0; apart /= 2) value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, apart));
  return value;
}

// The sum over a block of kBlockThreads, in every thread. `shared` holds kBlockThreads / kWarp values, and may be
// reused at once.
template <int kBlockThreads = kThreads, typename T>
__device__ T block_sum(T value, T* shared) {
  const unsigned lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  value = warp_sum(value);
  if (lane == 0) shared[warp] = value;
  __syncthreads();
  T sum = shared[0];
  for (int i = 1; i < kBlockThreads / kWarp; ++i) sum += shared[i];
  __syncthreads();
  return sum;
}

// Long columns and lists are summed in parts. The size alone determines their number.
inline constexpr std::int64_t kPartElements = 16 * kThreads;
inline std::int64_t parts_of(std::int64_t count) {
  return std::clamp<std::int64_t>(divide_up(count, kPartElements), 1, 1024);
}

template <typename Value>
__global__ void parts_kernel(std::int64_t count, Value value, double* parts) {
  __shared__ double shared[kThreads / kWarp];
  double sum = 0.0;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * kThreads)
    sum += value(i);
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

// Sums value(i) over a list of `count` in double, into parts_of(count) parts.
template <typename Value>
void sum_parts(const Args& args, std::int64_t count, Value value, double* parts) {
  launch(args, parts_kernel<Value>, blocks(parts_of(count)), kThreads, count, value, parts);
}
__device__ inline double sum_of(const double* parts, std::int64_t count) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < count; ++i) sum += parts[i];
  return sum;
}

// Two sums down each column of a [rows, columns] matrix. A block takes kWarp columns and one of row_parts() shares of
// the rows; a warp takes every (kThreads / kWarp)-th row of the share.
struct Pair {  // no initializers: it is in shared memory
  float first, second;
};
inline std::int64_t row_parts(std::int64_t rows) {
  return std::clamp<std::int64_t>(divide_up(rows, 256), 1, 256);
}
inline std::size_t column_bytes(std::int64_t rows, std::int64_t columns) {
  return sizeof(Pair) * static_cast<std::size_t>(row_parts(rows) * columns);
}

template <typename Value>
__global__ void column_kernel(std::int64_t rows, std::int64_t columns, Value value, Pair* parts) {
  constexpr int kWarps = kThreads / kWarp;
  __shared__ Pair shared[kThreads];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const std::int64_t column = std::int64_t{blockIdx.x} * kWarp + lane;
  const std::int64_t begin = rows * blockIdx.y / gridDim.y, end = rows * (blockIdx.y + 1) / gridDim.y;
  Pair sum{};
  if (column < columns) {
    for (std::int64_t r = begin + warp; r < end; r += kWarps) {
      const Pair one = value(r, column);
      sum.first += one.first, sum.second += one.second;
    }
  }
  shared[threadIdx.x] = sum;
  __syncthreads();
  if (warp > 0 || column >= columns) return;
  for (int i = 1; i < kWarps; ++i) {
    const Pair other = shared[i * kWarp + lane];
    sum.first += other.first, sum.second += other.second;
  }
  parts[blockIdx.y * columns + column] = sum;
}

// Writes row_parts(rows) rows of `columns` pairs to `parts`; value(row, column) returns a Pair.
template <typename Value>
void sum_columns(const Args& args, std::int64_t rows, std::int64_t columns, Value value, Pair* parts) {
  launch(args, column_kernel<Value>, blocks(divide_up(columns, kWarp), row_parts(rows)), kThreads, rows, columns, value,
         parts);
}
struct Sums {
  double first = 0.0, second = 0.0;
};
__device__ inline Sums column_of(const Pair* parts, std::int64_t count, std::int64_t columns, std::int64_t column) {
  Sums sums;
  for (std::int64_t i = 0; i < count; ++i) {
    sums.first += parts[i * columns + column].first;
    sums.second += parts[i * columns + column].second;
  }
  return sums;
}

template <typename Body>
__global__ void rows_kernel(std::int64_t rows, Body body) {
  const std::int64_t row = std::int64_t{blockIdx.x} * (kThreads / kWarp) + threadIdx.x / kWarp;
  if (row < rows) body(row, static_cast<int>(threadIdx.x % kWarp));
}
// Runs body(row, lane) with a whole warp for each row.
template <typename Body>
void each_row(const Args& args, std::int64_t rows, Body body) {
  launch(args, rows_kernel<Body>, blocks(divide_up(rows, kThreads / kWarp)), kThreads, rows, body);
}

bool prepare_library_linear(const Problem& problem, Plan& plan);  // with NVIDIA's libraries, if they support it
bool prepare_library_conv(const Problem& problem, Plan& plan);
bool prepare_tensor_linear(const Problem& problem, Plan& plan);  // on tensor cores, if they support it
bool prepare_tensor_conv(const Problem& problem, Plan& plan);
bool prepare_linear(const Problem& problem, Plan& plan);  // forward and both backwards, f32, half and quantized
bool prepare_conv(const Problem& problem, Plan& plan);
bool prepare_depthwise(const Problem& problem, Plan& plan);  // one group for each channel
bool prepare_batch_norm(const Problem& problem, Plan& plan);
bool prepare_layer_norm(const Problem& problem, Plan& plan);
bool prepare_rms_norm(const Problem& problem, Plan& plan);
bool prepare_swiglu(const Problem& problem, Plan& plan);
bool prepare_rope(const Problem& problem, Plan& plan);
bool prepare_pointwise(const Problem& problem, Plan& plan);  // activations, additions, casts, quantization
bool prepare_pool(const Problem& problem, Plan& plan);
bool prepare_dropout(const Problem& problem, Plan& plan);
bool prepare_loss(const Problem& problem, Plan& plan);         // softmax, softmax cross-entropy of both kinds
bool prepare_target_loss(const Problem& problem, Plan& plan);  // sigmoid cross-entropy, squared error, Huber
bool prepare_embedding(const Problem& problem, Plan& plan);
bool prepare_positions(const Problem& problem, Plan& plan);
bool prepare_attention(const Problem& problem, Plan& plan);        // any head
bool prepare_flash_attention(const Problem& problem, Plan& plan);  // half precision, heads of up to 128
bool prepare_optimizer(const Problem& problem, Plan& plan);
bool prepare_gradients(const Problem& problem, Plan& plan);  // sums, norm, Muon's direction
bool prepare_gradient_scale(const Problem& problem, Plan& plan);
bool prepare_augment(const Problem& problem, Plan& plan);

}  // namespace mlx::kernels::cuda
