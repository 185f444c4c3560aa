// Memory for arenas, states and packed weights, on the host or a GPU; memory and events for copies between the two.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "kernels/device.h"

namespace mlx::graph {

// The values that nodes before `split` write and nodes from there on read may exist several times: a run of a session
// uses one of these slots (RunOptions::slot). So the first nodes can run for one batch before the others have run for
// another.
struct KeptValues {
  std::size_t split = 0;
  int slots = 1;
  bool operator==(const KeptValues&) const = default;
};

struct FreeMemory {
  const kernels::Device* device = nullptr;
  void operator()(void* memory) const { device->release(memory); }
};
using Memory = std::unique_ptr<void, FreeMemory>;

// Aligned to cache lines, contents undefined. Null if a GPU has no more; throws std::bad_alloc if the host has none.
inline Memory allocate(std::size_t bytes, const kernels::Device& device = kernels::host_device()) {
  void* memory = device.allocate(bytes);
  if (!memory && device.host) throw std::bad_alloc();
  return {memory, FreeMemory{&device}};
}

struct FreePinned {
  const kernels::Device* device = &kernels::host_device();  // the host: the memory is not pinned
  void operator()(void* memory) const { device->release_pinned(memory); }
};
using PinnedMemory = std::unique_ptr<void, FreePinned>;

// Host memory for copies to and from a GPU. If none can be pinned it is ordinary memory: copies are then correct, but
// the host waits for them. Throws std::bad_alloc if there is none at all.
inline PinnedMemory allocate_pinned(std::size_t bytes, const kernels::Device& device) {
  if (void* memory = device.allocate_pinned(bytes)) return {memory, FreePinned{&device}};
  return {allocate(bytes).release(), FreePinned{}};
}

struct FreeEvent {
  const kernels::Device* device = nullptr;
  void operator()(void* event) const { device->release_event(event); }
};
using Event = std::unique_ptr<void, FreeEvent>;

inline Event make_event(const kernels::Device& device) {
  return {device.make_event(), FreeEvent{&device}};
}

}  // namespace mlx::graph
