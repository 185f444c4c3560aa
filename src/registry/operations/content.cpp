// See content.h.
#include "registry/operations/content.h"

#include "base/json.h"
#include "registry/operations/body.h"

namespace mlx::registry {

std::vector<Digest> Content::blobs() const {
  std::vector<Digest> all = of(Role::kSeries);
  all.insert(all.end(), of(Role::kBlob).begin(), of(Role::kBlob).end());
  return all;
}

bool Content::travels() const {
  return !of(Role::kVersion).empty() || !of(Role::kSeries).empty() || !of(Role::kBlob).empty();
}

void Content::add(const Kinds& kinds, const Operation& operation, const Json& body) {
  const Kind* const kind = kinds.find(operation.kind);
  if (!kind) return;
  for (const DigestField& field : kind->content.fields()) {
    Body(body).visit(field, [&](const Digest& digest) {
      by_role_[static_cast<std::size_t>(field.role)].push_back(digest);
      if (field.role == Role::kVersion) versions.emplace_back(text_in(body, "artifact"), digest);
    });
  }
}

Content content_of(const Kinds& kinds, const Operation& operation) {
  Content content;
  content.add(kinds, operation, parse_json(operation.body, "operation " + operation.id.brief()));
  return content;
}

Content content_of(const Kinds& kinds, OperationStage& operations, const Wanted& wanted) {
  Content content;
  operations.visit([&](const Operation& operation) {
    const Json body = parse_json(operation.body, "operation " + operation.id.brief());
    if (!wanted || wanted(operation, body)) content.add(kinds, operation, body);
  });
  return content;
}

}  // namespace mlx::registry
