// Memory for arenas, states and packed weights, of the host or of a GPU.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "kernels/device.h"

namespace mlx::graph {

struct FreeMemory {
  const kernels::Device* device = nullptr;
  void operator()(void* memory) const { device->release(memory); }
};
using Memory = std::unique_ptr<void, FreeMemory>;

// On cache lines, contents undefined; null where a GPU has no more. Throws std::bad_alloc where the host has none.
inline Memory allocate(std::size_t bytes, const kernels::Device& device = kernels::host_device()) {
  void* memory = device.allocate(bytes);
  if (!memory && device.host) throw std::bad_alloc();
  return {memory, FreeMemory{&device}};
}

}  // namespace mlx::graph
