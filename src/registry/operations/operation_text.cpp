// See operation_text.h.
#include "registry/operations/operation_text.h"

#include "base/json.h"
#include "registry/operations/body.h"

namespace mlx::registry {

std::string operation_text(const Kinds& kinds, const Operation& operation) {
  const Kind* const kind = kinds.find(operation.kind);
  if (!kind) return operation.kind;
  const Json json = parse_json(operation.body, "operation " + operation.id.brief());
  return kind->text(Body(json));
}

OperationSubject operation_subject(const Kinds& kinds, const Operation& operation) {
  const Json json = parse_json(operation.body, "operation " + operation.id.brief());
  const Body body(json);
  OperationSubject subject{body.text("artifact"), body.text("run"), {}};
  const Kind* const kind = kinds.find(operation.kind);
  if (!kind) return subject;
  for (const DigestField& field : kind->content.fields()) {
    if (field.role != Role::kVersion && field.role != Role::kReference && field.role != Role::kLost) continue;
    body.visit(field, [&](const Digest& digest) { subject.versions.push_back(digest); });
  }
  return subject;
}

}  // namespace mlx::registry
