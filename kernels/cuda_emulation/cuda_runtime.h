// The part of CUDA that kernels/cuda uses, on the host. The CUDA sources are compiled as C++ against this header and
// run thread by thread. So tests check what kernels compute, and sanitizers check what they access, without a GPU.
// Slow, and never installed.
//
// A stream's work is done when somebody waits for it (streams.cpp). A launch runs block after block in the waiting
// thread, while others wait. A thread of a block is a fiber; it runs until it waits for the others of its block or
// warp. A warp runs as far ahead as it can, and every second block runs backwards, so that a missing __syncthreads()
// changes results. Blocks are one-dimensional. Device memory is the host's. Tensor cores and asynchronous copies are in
// this folder's ptx.h.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __grid_constant__
#define __shared__ static  // one grid runs at a time, and one of its blocks

struct dim3 {
  unsigned x, y, z;
  constexpr explicit(false) dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

inline dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace mlx::emulation {

void run_grid(dim3 grid, unsigned threads, std::size_t shared_bytes, const std::function<void()>& thread);
void wait_for_block();
bool any_of_block(bool vote);  // true if any thread of the block votes true; waits for all

// What each lane of this thread's warp passed to the same call; all lanes that still run take part. Valid until the
// second call after this one.
inline constexpr std::size_t kMostGiven = 32;  // bytes
struct Given {
  const unsigned char* first = nullptr;
  std::size_t apart = 0;
  const void* of_lane(unsigned lane) const { return first + lane * apart; }
};
Given give(const void* data, std::size_t bytes);

template <typename T>
T exchange(T value, unsigned lane) {
  static_assert(sizeof(T) <= kMostGiven);
  std::memcpy(&value, give(&value, sizeof value).of_lane(lane % 32), sizeof value);
  return value;
}

// The block's dynamic shared memory, of the size that it was launched with. Its contents are undefined.
void* block_memory();

// Asynchronous copies of this thread. A copy happens only when it is waited for.
void copy_later(void* to, const void* from, std::size_t bytes, std::size_t zeros);  // then `zeros` zero bytes
void commit_copies();                   // makes the copies since the last call a group
void wait_copies(std::size_t pending);  // until at most `pending` groups are left

}  // namespace mlx::emulation

inline void __syncthreads() {
  mlx::emulation::wait_for_block();
}
inline void __syncwarp() {
  mlx::emulation::exchange(0, 0);
}
template <typename T>
T __shfl_sync(unsigned, T value, int lane) {
  return mlx::emulation::exchange(value, static_cast<unsigned>(lane));
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, int apart) {
  return mlx::emulation::exchange(value, threadIdx.x % 32 ^ static_cast<unsigned>(apart));
}

inline unsigned __ballot_sync(unsigned, int vote) {
  const mlx::emulation::Given given = mlx::emulation::give(&vote, sizeof vote);
  unsigned votes = 0;
  for (unsigned lane = 0; lane < 32 && threadIdx.x / 32 * 32 + lane < blockDim.x; ++lane) {
    int other = 0;
    std::memcpy(&other, given.of_lane(lane), sizeof other);
    votes |= static_cast<unsigned>(other != 0) << lane;
  }
  return votes;
}
inline int __syncthreads_or(int vote) {
  return mlx::emulation::any_of_block(vote != 0);
}
inline int __ffs(int bits) {
  return __builtin_ffs(bits);
}
// Rounds separately: not inlined, so that the compiler cannot contract it into a multiply-add.
[[gnu::noinline]] inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDefault = 4 };
using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal = 1 };
inline constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2, cudaHostAllocDefault = 0;

struct cudaUUID_t {
  char bytes[16];
};
struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  std::size_t totalGlobalMem;
  int major, minor;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaGetLastError();
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);  // an asked stream works: it is never too early
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaMalloc(void** memory, std::size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* memory);
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* launches, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphLaunch(cudaGraphExec_t launches, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t launches);

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
template <typename... Expected>
cudaError_t cudaFuncSetAttribute(void (*)(Expected...), cudaFuncAttribute, int) {
  return cudaSuccess;
}

cudaError_t mlx_launch(const cudaLaunchConfig_t& config, const std::function<void()>& thread);
template <typename... Expected>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Expected...), Expected... arguments) {
  return mlx_launch(*config, [kernel, arguments...] { kernel(arguments...); });
}
