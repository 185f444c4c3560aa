// Emulated cuBLASLt, cuDNN and NCCL: the functions that kernels/cuda uses, on the host's memory. They are strict: they
// refuse what the real libraries document as invalid or not supported, and also calls that mlx has no reason to make.
// Their work is launched like kernels, so it is captured and replayed with them.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <span>

#include "kernels/cuda_emulation/cuda_runtime.h"
#include "kernels/half.h"
#include "kernels/kernel.h"

namespace mlx::emulation {

struct Function {
  const char* name;
  void* address;
};
std::span<const Function> cublas_lt_functions();
std::span<const Function> cudnn_functions();
std::span<const Function> nccl_functions();

// An entry of those lists; the function has the type that Api declares.
template <typename Api, typename Result, typename... Arguments>
Function exported(const char* name, Result (*Api::*)(Arguments...), Result (*function)(Arguments...)) {
  return {name, reinterpret_cast<void*>(function)};
}

// True if a test wants this library function to fail, by its name in MLX_EMULATED_GPU_LIBRARY_FAILS.
bool wanted_to_fail(const char* name);

// Runs `work` when its turn comes on the stream.
inline bool launch_on(cudaStream_t stream, const std::function<void()>& work) {
  cudaLaunchConfig_t config;
  config.stream = stream;
  return mlx_launch(config, work) == cudaSuccess;
}

inline bool multiple_of(const void* pointer, std::uint64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

// Elements of f32, bf16 or f16.
inline float load(const void* data, kernels::DType type, std::int64_t i) {
  if (type == kernels::DType::kBF16) return kernels::widen(static_cast<const kernels::BF16*>(data)[i]);
  if (type == kernels::DType::kF16) return kernels::widen(static_cast<const kernels::F16*>(data)[i]);
  return static_cast<const float*>(data)[i];
}
inline void store(void* data, kernels::DType type, std::int64_t i, float value) {
  if (type == kernels::DType::kBF16)
    static_cast<kernels::BF16*>(data)[i] = kernels::to_bf16(value);
  else if (type == kernels::DType::kF16)
    static_cast<kernels::F16*>(data)[i] = kernels::to_f16(value);
  else
    static_cast<float*>(data)[i] = value;
}
// An f32 as tensor cores read it: without its lower bits.
inline float cut_to_tf32(float x) {
  return __builtin_bit_cast(float, __builtin_bit_cast(std::uint32_t, x) & 0xffffe000u);
}

}  // namespace mlx::emulation
