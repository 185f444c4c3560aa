// An operation in a few words, for people: "committed data/x@v2: more labels". Used by undo's messages and the audit
// log.
#pragma once

#include <string>
#include <vector>

#include "registry/operations/kinds.h"
#include "registry/operations/operation.h"

namespace mlx::registry {

std::string operation_text(const Kinds& kinds, const Operation& operation);  // its kind's name where that is not known

// The artifact, the run and the versions that it is about; "" and none where it is about neither.
struct OperationSubject {
  std::string artifact, run;
  std::vector<Digest> versions;
};
OperationSubject operation_subject(const Kinds& kinds, const Operation& operation);

}  // namespace mlx::registry
