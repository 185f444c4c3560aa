// Two walks over what arrives: from what leads to a known operation upwards, and from there down to all that it joins.
#include "registry/unrelated.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "store/signature.h"

namespace mlx::registry {
namespace {

constexpr std::size_t kNamedSigners = 3;

// "3 of SHA256:… and 1 of nobody's key"
std::string by_signer(const std::vector<Operation>& operations) {
  std::map<Digest, std::size_t> counts;
  for (const Operation& operation : operations) ++counts[operation.signer];
  std::string list;
  std::size_t named = 0;
  for (const auto& [signer, count] : counts) {
    if (named++ == kNamedSigners)
      return list + fmt::format(" and more of {}", counted(counts.size() - kNamedSigners, "other"));
    list += fmt::format("{}{} of {}", list.empty() ? "" : ", ", count,
                        signer.is_zero() ? "nobody's key" : store::ssh_fingerprint(signer));
  }
  return list;
}

}  // namespace

std::vector<Operation> unrelated_operations(Repository& repository, const std::vector<Operation>& arriving) {
  if (arriving.empty() || repository.heads().empty()) return {};
  std::unordered_map<Digest, std::size_t, DigestHash> place;
  for (std::size_t i = 0; i < arriving.size(); ++i) place.emplace(arriving[i].id, i);
  std::vector<bool> related(arriving.size(), false);
  for (std::size_t i = 0; i < arriving.size(); ++i) {
    related[i] = std::ranges::any_of(arriving[i].parents, [&](const Digest& parent) {
      const auto at = place.find(parent);
      return at == place.end() || related[at->second];
    });
  }
  for (std::size_t i = arriving.size(); i-- > 0;) {
    if (!related[i]) continue;
    for (const Digest& parent : arriving[i].parents) {
      if (const auto at = place.find(parent); at != place.end()) related[at->second] = true;
    }
  }
  std::vector<Operation> apart;
  for (std::size_t i = 0; i < arriving.size(); ++i) {
    if (!related[i]) apart.push_back(arriving[i]);
  }
  return apart;
}

void require_related(Repository& repository, const RemoteConfig& remote, const std::vector<Operation>& arriving) {
  const std::vector<Operation> apart = unrelated_operations(repository, arriving);
  if (apart.empty()) return;
  throw Error(ErrorKind::kRefused,
              fmt::format("'{}' has {} that have nothing in common with the history of this clone: {}", remote.name,
                          counted(apart.size(), "operation"), by_signer(apart)),
              "where two clones of one project began apart: `mlx pull --allow-unrelated-histories` joins them; what "
              "belongs to another project `mlx push --repair` leaves out");
}

void join_histories(Repository& repository, const std::vector<Operation>& unrelated) {
  Json roots = Json::array();
  for (const Operation& operation : unrelated) {
    if (operation.parents.empty()) roots.push_back(operation.id.text());
  }
  repository.record("history.join", {{"roots", std::move(roots)}});
}

}  // namespace mlx::registry
