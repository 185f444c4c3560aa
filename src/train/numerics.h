// The numerics id: hash of everything of this program and machine that can change a result's bits (DESIGN 1, a run's
// key).
#pragma once

#include <string>

#include "base/hash.h"
#include "base/json_fwd.h"
#include "kernels/table.h"

namespace mlx::train {

// Sources of kernels, graph, nn, data and train; version of libm; and, unless `portable`, whose bits do not depend on
// them, ISA, kernel level and version of oneDNN.
Digest numerics_id(kernels::Level level, bool portable = false);
// What stands in a run's record: cpu, cores, kernels, isa, oneDNN, libc, numerics id.
Json environment(kernels::Level level, int threads, bool portable = false);
// Key of a run: SHA-256 over canonical JSON of command, inputs, resolved parameters, numerics id.
Digest run_key(const std::string& command, const std::vector<std::pair<std::string, Digest>>& inputs,
               const std::string& params, const Digest& numerics);

}  // namespace mlx::train
