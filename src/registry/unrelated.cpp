// Two walks over what arrives: from what leads to a known operation upwards, and from there down to all that it joins.
#include "registry/unrelated.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "registry/history.h"
#include "registry/trust.h"
#include "store/signature.h"

namespace mlx::registry {
namespace {

constexpr const char* kJoinKind = "history.join";
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

// The parts of a graph that no way leads between, parents added before children.
class Parts {
 public:
  void add(const Operation& operation) {
    const std::size_t own = part_of_.size();
    part_of_.push_back(own);
    place_.emplace(operation.id, own);
    ++count_;
    for (const Digest& parent : operation.parents) {
      const auto at = place_.find(parent);
      if (at == place_.end()) continue;
      const std::size_t one = top(own), other = top(at->second);
      if (one == other) continue;
      part_of_[one] = other;
      --count_;
    }
  }
  std::size_t count() const { return count_; }

 private:
  std::size_t top(std::size_t i) {
    while (part_of_[i] != i) i = part_of_[i] = part_of_[part_of_[i]];
    return i;
  }

  std::vector<std::size_t> part_of_;
  std::unordered_map<Digest, std::size_t, DigestHash> place_;
  std::size_t count_ = 0;
};

}  // namespace

std::vector<Operation> not_joined(const std::vector<Operation>& arriving) {
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

std::vector<Operation> unrelated_operations(Repository& repository, const std::vector<Operation>& arriving) {
  if (arriving.empty() || repository.heads().empty()) return {};
  return not_joined(arriving);
}

void require_related(Repository& repository, const RemoteConfig& remote, const std::vector<Operation>& arriving) {
  const std::vector<Operation> apart = unrelated_operations(repository, arriving);
  if (apart.empty()) return;
  throw Error(ErrorKind::kRefused,
              fmt::format("'{}' has {} with nothing in common with the history of this clone: {}", remote.name,
                          counted(apart.size(), "operation"), by_signer(apart)),
              "where two clones of one project began apart: `mlx pull --allow-unrelated-histories` joins them; what "
              "belongs to another project `mlx push --repair` leaves out");
}

void require_may_join(Repository& repository, const std::vector<Operation>& arriving) {
  if (!unrelated_operations(repository, arriving).empty()) require_may_record(repository, kJoinKind);
}

void join_histories(Repository& repository) {
  Parts parts;
  Json roots = Json::array();
  visit_operations(repository.db(), [&](const Operation& operation) {
    parts.add(operation);
    if (operation.parents.empty()) roots.push_back(operation.id.text());
  });
  if (parts.count() > 1) repository.record(kJoinKind, {{"roots", std::move(roots)}});
}

}  // namespace mlx::registry
