// An operation in a few words, for people: "committed data/x@v2: more labels". Used by undo's messages and the audit
// log.
#pragma once

#include <string>

#include "registry/operations/operation.h"

namespace mlx::registry {

std::string operation_text(const Operation& operation);

// The artifact and the version that it is about; "" and nullopt where it is about neither.
struct OperationSubject {
  std::string artifact, run;
  std::vector<Digest> versions;
};
OperationSubject operation_subject(const Operation& operation);

}  // namespace mlx::registry
