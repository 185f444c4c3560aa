// The numerics id: a hash of everything in this program and on this machine that can change the bits of a result. It is
// part of a run's key (DESIGN 1).
#pragma once

#include <optional>

#include "base/hash.h"
#include "base/json_fwd.h"
#include "kernels/backend.h"

namespace mlx::work {

// What computes a result.
struct Numerics {
  // The sources of every layer that the command's body links: MLX_NAME_SOURCES of its own layer's NAME_sources.h, which
  // CMake generates (tests/house/check_layers.py). For a foreign command: the files that it consists of.
  Digest sources;
  std::optional<kernels::Backend> backend;  // none: no kernel of this program computes it (a foreign command)
  bool portable = false;                    // the kernels give the same bits on every machine
};

// Hashes the sources. If a kernel computes the result, also compiler and flags, libm's version and the backend; unless
// `portable` also the ISA, oneDNN's version and the ISA that it uses.
Digest numerics_id(const Numerics& numerics);
// What a run records: all of the above, and cpu, cores, threads and the numerics id.
Json environment(const Numerics& numerics, int threads);

}  // namespace mlx::work
