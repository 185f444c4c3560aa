// Whose history is it? Signatures, signers and times, as `mlx audit verify` shows them. What stands in the graph was
// judged when it was taken in (trust.h); here it is judged again, all of it, by what mlx.toml says now.
#pragma once

#include <string>
#include <vector>

#include "base/parallel.h"
#include "registry/operations/kinds.h"
#include "registry/operations/operation_stage.h"

namespace mlx::registry {

struct TrustReport {
  std::vector<std::string> problems;  // signatures that do not hold; who is not vouched for by [people]
  std::vector<std::string> notes;     // unsigned (where nobody is declared), backdated, ahead of time
};
// `root`: where mlx.toml stands. `operations`: settled.
TrustReport verify_trust(const Kinds& kinds, const std::string& root, OperationStage& operations, Pool& pool);

}  // namespace mlx::registry
