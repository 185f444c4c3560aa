// The libraries of the emulated machine (libraries.h). For tests MLX_EMULATED_GPU_LIBRARIES lists their paths,
// separated by spaces; empty for none.
#include "kernels/cuda_emulation/libraries.h"

#include <cstdlib>
#include <string>

#include "kernels/cuda_emulation/dlfcn.h"

namespace mlx::emulation {
namespace {

using Functions = std::span<const Function> (*)();
Functions cublas_lt = cublas_lt_functions, cudnn = cudnn_functions, nccl = nccl_functions;

}  // namespace

bool wanted_to_fail(const char* name) {
  const char* wanted = std::getenv("MLX_EMULATED_GPU_LIBRARY_FAILS");
  return wanted && std::strcmp(wanted, name) == 0;
}

}  // namespace mlx::emulation

void* dlopen(const char* path, int) {
  const char* listed = std::getenv("MLX_EMULATED_GPU_LIBRARIES");
  const std::string there = std::string(" ") + (listed ? listed : "libcublasLt.so.13 libcudnn.so.9 libnccl.so.2") + " ";
  const std::string name = path;
  if (there.find(" " + name + " ") == std::string::npos) return nullptr;
  if (name.find("cublasLt") != std::string::npos) return &mlx::emulation::cublas_lt;
  return name.find("nccl") != std::string::npos ? &mlx::emulation::nccl : &mlx::emulation::cudnn;
}

void* dlsym(void* library, const char* name) {
  for (const mlx::emulation::Function& function : (*static_cast<mlx::emulation::Functions*>(library))())
    if (std::strcmp(function.name, name) == 0) return function.address;
  return nullptr;
}
