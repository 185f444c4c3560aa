// The emulated driver's probe, in the module that sessions here open as CUDA's. Shared by the tests of this folder.
#pragma once

#include <doctest/doctest.h>

#include "base/module.h"
#include "kernels/cuda_emulation/probe.h"

namespace mlx::emulation {

template <typename Function>
Function* probe(const char* name) {
  Module module = open_module("mlx_cuda.so");
  void* const found = module.symbol(name);
  REQUIRE_MESSAGE(found != nullptr, module.problem);
  return reinterpret_cast<Function*>(found);
}

inline Counts counts() {
  Counts out;
  probe<decltype(mlx_emulation_counts)>("mlx_emulation_counts")(&out);
  return out;
}

inline void copies_first(bool first) {
  probe<decltype(mlx_emulation_copies_first)>("mlx_emulation_copies_first")(first);
}

}  // namespace mlx::emulation
