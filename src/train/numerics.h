// The numerics id: hash of everything of this program and machine that can change a result's bits (DESIGN 1, a run's
// key).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/json_fwd.h"
#include "kernels/table.h"

namespace mlx::train {

// SHA-256 over the sources of every layer that a command's body links: a layer with bodies in it has one, which CMake
// makes of what it links (NAME_sources.h), and its bodies say it.
struct Sources {
  std::string_view digest;
};
Sources train_sources();  // of training, evaluation and merging

// The body's sources; compiler and its flags; version of libm; and, unless `portable`, whose bits do not depend on
// them, ISA, kernel level, and oneDNN's version and the ISA that it uses.
Digest numerics_id(Sources sources, kernels::Level level, bool portable = false);
// What stands in a run's record: all of that, cpu, cores, threads, numerics id.
Json environment(Sources sources, kernels::Level level, int threads, bool portable = false);
// Key of a run: SHA-256 over canonical JSON of command, inputs, resolved parameters, numerics id.
Digest run_key(const std::string& command, const std::vector<std::pair<std::string, Digest>>& inputs,
               const std::string& params, const Digest& numerics);

}  // namespace mlx::train
