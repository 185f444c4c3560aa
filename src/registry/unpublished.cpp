// Operations are few beside content: they are read and judged as a whole.
#include "registry/unpublished.h"

#include <algorithm>
#include <unordered_map>

#include "registry/trust.h"
#include "store/transfer.h"

namespace mlx::registry {

namespace {

DigestSet reached_by(const std::vector<Operation>& all, const std::vector<Digest>& heads) {
  std::unordered_map<Digest, const Operation*, DigestHash> by_id;
  for (const Operation& operation : all) by_id.emplace(operation.id, &operation);
  return with_ancestors(heads, [&](const Digest& id) -> std::optional<std::vector<Digest>> {
    const auto at = by_id.find(id);
    return at == by_id.end() ? std::nullopt : std::optional(at->second->parents);
  });
}

}  // namespace

bool knows_all(const std::vector<Operation>& all, const std::vector<Digest>& heads) {
  DigestSet known;
  for (const Operation& operation : all) known.insert(operation.id);
  return std::ranges::all_of(heads, [&](const Digest& head) { return known.contains(head); });
}

std::vector<Operation> beyond(const std::vector<Operation>& all, const std::vector<Digest>& remote_heads) {
  const DigestSet reached = reached_by(all, remote_heads);
  std::vector<Operation> lacking;
  std::ranges::copy_if(all, std::back_inserter(lacking), [&](const Operation& o) { return !reached.contains(o.id); });
  return lacking;
}

std::vector<Operation> lost_operations(store::Remote& remote, const std::vector<Operation>& all,
                                       const std::vector<Digest>& heads, std::size_t newest) {
  const DigestSet reached = reached_by(all, heads);
  std::vector<store::ObjectRef> asked;
  for (auto operation = all.rbegin(); operation != all.rend() && asked.size() < newest; ++operation) {
    if (reached.contains(operation->id)) asked.emplace_back(store::ObjectKind::kOperation, operation->id);
  }
  const std::vector<store::ObjectRef> missing = store::missing_objects(remote, asked);
  if (missing.empty()) return {};
  if (asked.size() < reached.size() && newest < all.size()) return lost_operations(remote, all, heads, all.size());
  DigestSet lost;
  for (const store::ObjectRef& operation : missing) lost.insert(operation.second);
  std::vector<Operation> found;
  std::ranges::copy_if(all, std::back_inserter(found), [&](const Operation& o) { return lost.contains(o.id); });
  return found;
}

BeforeSending judge_before_sending(Repository& repository) {
  if (!declared_people(repository.root()).declared) return {};
  return [&repository](const std::vector<Digest>& heads) {
    require_publishable(repository, beyond(repository.operations(), heads));
  };
}

}  // namespace mlx::registry
