// An operation as a short text for people: "committed data/x@v2: more labels". Used by undo's messages and the audit
// log.
#pragma once

#include <string>
#include <vector>

#include "registry/operations/kinds.h"
#include "registry/operations/operation.h"

namespace mlx::registry {

std::string operation_text(const Kinds& kinds, const Operation& operation);  // the kind's name if the kind is unknown

// The artifact, run and versions that the operation concerns; "" and empty if there are none.
struct OperationSubject {
  std::string artifact, run;
  std::vector<Digest> versions;
};
OperationSubject operation_subject(const Kinds& kinds, const Operation& operation);

}  // namespace mlx::registry
