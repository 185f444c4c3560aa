// Opens NVIDIA's libraries (library.h).
#include "kernels/cuda/library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "kernels/cuda/cublas_lt.h"
#include "kernels/cuda/cudnn.h"

namespace mlx::kernels::cuda {
namespace {

constexpr const char* kInstalled = "/usr/local/cuda/lib64/";

bool wanted() {
  const char* setting = std::getenv("MLX_CUDA_LIBRARIES");
  return !setting || std::strcmp(setting, "0") != 0;
}

// Both count 10000 · major + 100 · minor + patch.
std::string in_use(const char* name, bool there, std::size_t version) {
  if (!there) return std::string("without ") + name;
  return std::string(name) + " " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace

void* open_library(std::initializer_list<const char*> names, bool needed) {
  if (!needed && !wanted()) return nullptr;
  for (const char* name : names)
    for (const std::string& path : {std::string(name), std::string(kInstalled) + name})
      if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  return nullptr;
}

void* find(void* library, const char* name) {
  return dlsym(library, name);
}

std::string library_versions() {
  const cublas_lt::Api* products = cublas_lt::api();
  const cudnn::Api* convolutions = cudnn::api();
  return in_use("cuBLASLt", products != nullptr, products ? products->get_version() : 0) + ", " +
         in_use("cuDNN", convolutions != nullptr, convolutions ? convolutions->get_version() : 0);
}

}  // namespace mlx::kernels::cuda
