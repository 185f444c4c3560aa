// The numerics id: a hash of everything of this program and machine that can change a result's bits. It is part of a
// run's key (DESIGN 1).
#pragma once

#include <optional>

#include "base/hash.h"
#include "base/json_fwd.h"
#include "kernels/backend.h"

namespace mlx::work {

// What computes a result.
struct Numerics {
  // Of every layer that the command's body links: MLX_NAME_SOURCES of its own layer's NAME_sources.h, which CMake makes
  // (tests/house/check_layers.py). Of a foreign command: of the files that it is made of.
  Digest sources;
  std::optional<kernels::Backend> backend;  // none: no kernel of this program computes it (a foreign command)
  bool portable = false;                    // the kernels give the same bits on every machine
};

// The sources; and where a kernel computes: compiler and its flags, version of libm, the backend, and unless
// `portable` ISA, oneDNN's version and the ISA that it uses.
Digest numerics_id(const Numerics& numerics);
// What a run records: all of that, cpu, cores, threads, the numerics id.
Json environment(const Numerics& numerics, int threads);

}  // namespace mlx::work
