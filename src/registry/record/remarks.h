// Remarks for people about others' operations: one that has no effect, or that changed what somebody else had made. The
// apply functions make them by their own rules and store them (apply.h).
#pragma once

#include <string>
#include <vector>

#include "registry/operations/operation.h"
#include "registry/operations/operation_stage.h"
#include "registry/repository.h"

namespace mlx::registry {

struct Remark {
  Operation operation;
  bool ignored = false;
  std::string text;  // a sentence, with names if they are known
};
std::vector<Remark> remarks(Repository& repository);  // in the fixed order
std::vector<Remark> remarks_on(Repository& repository, const Digest& version);
// The remarks on these operations, and those that belong to no operation.
std::vector<std::string> remarks_on(Repository& repository, OperationStage& operations);

}  // namespace mlx::registry
