// NVIDIA's libraries for products and convolutions. They are not part of mlx: they are opened when a GPU is first used,
// and if one is missing the kernels here do its work. MLX_CUDA_LIBRARIES=0 disables them. A plan that uses one of them
// needs aligned workspace. Used by library_linear.cu, library_conv.cu and device.cu; and by peers.cu for messages,
// which nothing else can send.
#pragma once

#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "kernels/cuda/module.h"
#include "kernels/cuda/product.h"

namespace mlx::kernels::cuda {

// A handle for find(). Null if none of `names` ("libcudnn.so.9") is on the loader's path or in CUDA's install folder,
// or if libraries are disabled and this one is not `needed`. Never closed.
void* open_library(std::initializer_list<const char*> names, bool needed = false);
// The address of an exported function; null if there is none.
void* find(void* library, const char* name);
template <typename Function>
bool find(void* library, const char* name, Function*& function) {
  function = reinterpret_cast<Function*>(find(library, name));
  return function != nullptr;
}

// "cuBLASLt 13.1.0, cuDNN 9.19.0": the libraries in use, which belong to everything that identifies what results depend
// on; "without cuBLASLt, without cuDNN" if there is neither.
std::string library_versions();

// The T of this thread's current GPU. Made on first use and kept until the process ends.
template <typename T>
T& of_current_device() {
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<T>> made;
  const std::lock_guard lock(mutex);
  std::unique_ptr<T>& one = made[current_index()];
  if (!one) one = std::make_unique<T>();
  return *one;
}

// Libraries are told that tensors are at multiples of kTensorAlignment, as a session's are, and get workspace at
// multiples of kWorkspaceAlignment, as cublasLtMatmul requires. A plan's workspace itself may be less aligned.
inline constexpr std::size_t kTensorAlignment = 64, kWorkspaceAlignment = 256;

inline constexpr std::size_t align_up(std::size_t bytes) {
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

// The parts of a plan's workspace, one after another, each aligned.
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
// The size of a workspace with these parts.
inline std::size_t bytes_of_parts(std::initializer_list<std::size_t> parts) {
  std::size_t sum = kWorkspaceAlignment;
  for (const std::size_t bytes : parts) sum += align_up(bytes);
  return sum;
}

// Gives the plan `state` instead of its old state `own`, which `state` now owns. The plan needs the larger of both
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
