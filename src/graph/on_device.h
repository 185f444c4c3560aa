// What a session does with the memory of its device: takes it, and says what was wrong where there is too little or the
// device failed. Used by sessions only.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "graph/memory.h"

namespace mlx::graph {

struct Holder {  // of memory, by name
  std::string name;
  std::size_t bytes = 0;
};

// `bytes` for `what`. kMissing where a GPU has no more: what was asked, what is free, and the largest of `holders`.
Memory take(const kernels::Device& device, std::size_t bytes, const std::string& what, std::vector<Holder> holders);

// kMissing where something has gone wrong on the device up to now, naming `node`, which was launched last.
void check_device(const kernels::Device& device, const std::string& node);

// A copy in the host's memory, when everything before it is done.
Bytes fetch(const kernels::Device& device, const void* from, std::size_t bytes);

}  // namespace mlx::graph
