// Two walks over the arriving operations: upwards from those with a known parent, then down to everything that they
// join.
#include "registry/sync/unrelated.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "registry/record/judge.h"
#include "store/crypto/signature.h"

namespace mlx::registry {
namespace {

constexpr const char* kJoinKind = "history.join";
constexpr std::size_t kNamedSigners = 3;

// The number of operations that each key signed.
using BySigner = std::map<Digest, std::uint64_t>;

// "3 of SHA256:… and 1 of nobody's key"
std::string listed(const BySigner& counts) {
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

// By place: true if something joins it to the recorded history.
std::vector<bool> related_in(OperationStage& arriving) {
  std::vector<bool> related(arriving.size() + 1, false);  // by place
  std::uint64_t place = 0;
  arriving.visit([&](const Operation& operation) {
    related[++place] = std::ranges::any_of(operation.parents, [&](const Digest& parent) {
      const auto at = arriving.place_of(parent);
      return !at || related[*at];
    });
  });
  if (std::ranges::find(related.begin() + 1, related.end(), false) == related.end()) return related;
  for (; place > 0; --place) {
    if (!related[place]) continue;
    for (const Digest& parent : arriving.at(place).parents) {
      if (const auto at = arriving.place_of(parent)) related[*at] = true;
    }
  }
  return related;
}

// Counts the operations that have nothing in common with the recorded history.
BySigner unrelated_to(Repository& repository, OperationStage& arriving) {
  if (arriving.empty() || repository.heads().empty()) return {};
  const std::vector<bool> related = related_in(arriving);
  std::uint64_t place = 0;
  BySigner counts;
  arriving.visit([&](const Operation& operation) {
    if (!related[++place]) ++counts[operation.signer];
  });
  return counts;
}

// The connected components of a graph, by places in the fixed order.
class Parts {
 public:
  void add(std::int64_t place) {
    while (part_of_.size() <= static_cast<std::size_t>(place)) part_of_.push_back(static_cast<Place>(part_of_.size()));
    ++count_;
  }
  void join(std::int64_t parent, std::int64_t child) {
    const Place one = top(static_cast<Place>(parent)), other = top(static_cast<Place>(child));
    if (one == other) return;
    part_of_[other] = one;
    --count_;
  }
  std::size_t count() const { return count_; }

 private:
  using Place = std::uint32_t;
  Place top(Place i) {
    while (part_of_[i] != i) i = part_of_[i] = part_of_[part_of_[i]];
    return i;
  }

  std::vector<Place> part_of_;
  std::size_t count_ = 0;
};

}  // namespace

bool all_joined(OperationStage& arriving) {
  const std::vector<bool> related = related_in(arriving);
  return std::find(related.begin() + 1, related.end(), false) == related.end();
}

void require_related(Repository& repository, const RemoteConfig& remote, OperationStage& arriving) {
  const BySigner apart = unrelated_to(repository, arriving);
  if (apart.empty()) return;
  std::uint64_t count = 0;
  for (const auto& [signer, signed_by] : apart) count += signed_by;
  throw Error(ErrorKind::kRefused,
              fmt::format("'{}' has {} with nothing in common with the history of this clone: {}", remote.name,
                          counted(count, "operation"), listed(apart)),
              "if two clones of one project started separately, `mlx pull --allow-unrelated-histories` joins them; "
              "`mlx push --repair` leaves out operations of another project");
}

void require_may_join(Repository& repository, OperationStage& arriving) {
  if (!unrelated_to(repository, arriving).empty()) require_may_record(repository, kJoinKind);
}

void join_histories(Repository& repository) {
  Parts parts;
  Json roots = Json::array();
  store::Statement links = repository.db().prepare(
      "SELECT c.seq, c.id, p.seq FROM operations c LEFT JOIN operation_parents e ON e.child = c.id"
      " LEFT JOIN operations p ON p.id = e.parent ORDER BY c.seq");
  std::int64_t last = 0;
  while (links.step()) {
    const std::int64_t place = links.int64(0);
    if (place != last) parts.add(place);
    last = place;
    if (links.null(2))
      roots.push_back(links.digest(1).text());
    else
      parts.join(links.int64(2), place);
  }
  if (parts.count() > 1) repository.record(kJoinKind, {{"roots", std::move(roots)}});
}

}  // namespace mlx::registry
