// NVIDIA's libraries for products and convolutions, which are no part of mlx: they are opened when a GPU is first
// asked for, and where one is missing its work is done by the kernels here. MLX_CUDA_LIBRARIES=0 goes without them.
// A plan that uses one of them needs aligned workspace. Used by
// library_linear.cu, library_conv.cu and device.cu.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "kernels/cuda/module.h"
#include "kernels/cuda/product.h"

namespace mlx::kernels::cuda {

// A handle for find(), or null where none of `names` ("libcudnn.so.9") is on the loader's path or where CUDA is
// installed, or where libraries are not wanted. Never closed.
void* open_library(std::initializer_list<const char*> names);
// The address of an exported function; null if there is none.
void* find(void* library, const char* name);
template <typename Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(find(library, name));
  return function != nullptr;
}

// "cuBLASLt 13.1.0, cuDNN 9.19.0": what is used of them and must stand wherever it counts what results depend on;
// "without cuBLASLt, without cuDNN" if there is neither.
std::string library_versions();

// The T of this thread's current GPU, made when it is first asked for and kept for the life of the process.
template <typename T>
T& of_current_device() {
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<T>> made;
  const std::lock_guard lock(mutex);
  std::unique_ptr<T>& one = made[current_index()];
  if (!one) one = std::make_unique<T>();
  return *one;
}

// Libraries are told that tensors stand at multiples of it, as those of a session do, and are given workspace at
// multiples of kWorkspaceAlignment, which cublasLtMatmul asks for. A plan's workspace itself may be less aligned.
inline constexpr std::size_t kTensorAlignment = 64, kWorkspaceAlignment = 256;

inline constexpr std::size_t align_up(std::size_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

// The parts of a plan's workspace, one behind another, each aligned.
class Parts {
 public:
  explicit Parts(void* workspace)
      : next_(reinterpret_cast<char*>(align_up(reinterpret_cast<std::uintptr_t>(workspace)))) {}
  void* take(std::size_t bytes) {
    char* part = next_;
    next_ += align_up(bytes);
    return part;
  }

 private:
  char* next_;
};
// What a workspace of such parts needs.
inline std::size_t bytes_of_parts(std::initializer_list<std::size_t> parts) {
  std::size_t sum = kWorkspaceAlignment;
  for (const std::size_t bytes : parts) sum += align_up(bytes);
  return sum;
}

// A plan with `state` in place of what `own`, which the state owns now, had been; it needs the more of both
// workspaces.
template <typename LibraryState>
void replace_plan(Plan& plan, LibraryState* state, Run run, std::size_t workspace_bytes) {
  plan.state = state;
  plan.run = run;
  plan.workspace_bytes = std::max(plan.workspace_bytes, workspace_bytes);
  plan.destroy = [](void* owned) {
    auto* library_state = static_cast<LibraryState*>(owned);
    library_state->own.destroy(library_state->own.state);
    delete library_state;
  };
}

}  // namespace mlx::kernels::cuda
