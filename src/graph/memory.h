// Memory on cache lines, for arenas, states and packed weights.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <new>

namespace mlx::graph {

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, FreeMemory>;

// 64-byte aligned, contents undefined; never null.
inline Memory allocate(std::size_t bytes) {
  void* memory = std::aligned_alloc(64, (bytes / 64 + 1) * 64);
  if (!memory) throw std::bad_alloc();
  return Memory(memory);
}

}  // namespace mlx::graph
