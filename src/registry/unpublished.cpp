// Operations are few beside content: they are read and judged as a whole.
#include "registry/unpublished.h"

#include <algorithm>
#include <unordered_map>

#include "registry/trust.h"

namespace mlx::registry {

bool knows_all(const std::vector<Operation>& all, const std::vector<Digest>& heads) {
  DigestSet known;
  for (const Operation& operation : all) known.insert(operation.id);
  return std::ranges::all_of(heads, [&](const Digest& head) { return known.contains(head); });
}

std::vector<Operation> beyond(const std::vector<Operation>& all, const std::vector<Digest>& remote_heads) {
  std::unordered_map<Digest, const Operation*, DigestHash> by_id;
  for (const Operation& operation : all) by_id.emplace(operation.id, &operation);
  const DigestSet reached = with_ancestors(remote_heads, [&](const Digest& id) -> std::optional<std::vector<Digest>> {
    const auto at = by_id.find(id);
    return at == by_id.end() ? std::nullopt : std::optional(at->second->parents);
  });
  std::vector<Operation> lacking;
  std::ranges::copy_if(all, std::back_inserter(lacking), [&](const Operation& o) { return !reached.contains(o.id); });
  return lacking;
}

BeforeSending judge_before_sending(Repository& repository) {
  if (!declared_people(repository.root()).declared) return {};
  return [&repository](const std::vector<Digest>& heads) {
    require_publishable(repository, beyond(repository.operations(), heads));
  };
}

}  // namespace mlx::registry
