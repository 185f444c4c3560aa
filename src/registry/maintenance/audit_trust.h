// Verifies signatures, signers and times, for `mlx audit verify`. Operations were judged when they were accepted
// (trust.h); here all of them are judged again by the present mlx.toml.
#pragma once

#include <string>
#include <vector>

#include "base/parallel.h"
#include "registry/operations/kinds.h"
#include "registry/operations/operation_stage.h"

namespace mlx::registry {

struct TrustReport {
  std::vector<std::string> problems;  // invalid signatures; signers whom [people] does not vouch for
  std::vector<std::string> notes;     // unsigned (if nobody is declared), backdated, in the future
};
// `root`: the folder of mlx.toml. `operations`: settled.
TrustReport verify_trust(const Kinds& kinds, const std::string& root, OperationStage& operations, Pool& pool);

}  // namespace mlx::registry
