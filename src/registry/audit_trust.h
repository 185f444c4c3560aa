// Whose history is it? Signatures, signers, times and a remote's heads, as `mlx audit verify` shows them. What stands
// in the graph was judged when it was taken in (trust.h); here it is judged again, all of it, by what mlx.toml says
// now.
#pragma once

#include <string>
#include <vector>

#include "registry/operation.h"
#include "registry/repository.h"

namespace mlx::registry {

struct TrustReport {
  std::vector<std::string> problems;  // signatures that do not hold; who is not vouched for by [people]
  std::vector<std::string> notes;     // unsigned (where nobody is declared), backdated, ahead of time
};
TrustReport verify_trust(Repository& repository, const std::vector<Operation>& operations);

}  // namespace mlx::registry
