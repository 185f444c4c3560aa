// What people are told of operations by others: that one has no effect, or changed what somebody else had made. The
// rules are those of the apply functions, which write them down (apply.h).
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
  std::string text;  // a sentence, with names where they are known
};
std::vector<Remark> remarks(Repository& repository);  // in the fixed order
std::vector<Remark> remarks_on(Repository& repository, const Digest& version);
// Of these operations; those that stand in none.
std::vector<std::string> remarks_on(Repository& repository, OperationStage& operations);

}  // namespace mlx::registry
