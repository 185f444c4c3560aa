// The golden outputs of a version (infer/golden.h), as they are kept in a repository. Used by `mlx golden` and `mlx
// serve`.
#pragma once

#include <string>
#include <vector>

#include "infer/golden.h"
#include "registry/versions/artifacts.h"

namespace mlx::cmd {

struct KeptGolden {
  std::string name;  // "data/fashion@v1 test", with the version's digest if it has no name here
  infer::Golden golden;
};
// By name. Throws kNotFound if the content of one is not here (mlx-fetch(1)).
std::vector<KeptGolden> golden_outputs(registry::Repository& repository, const registry::Version& version);

}  // namespace mlx::cmd
