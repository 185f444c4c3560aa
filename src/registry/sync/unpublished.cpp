// What a remote has is a bit for each place in the fixed order; what it lacks is staged on disk.
#include "registry/sync/unpublished.h"

#include <algorithm>

#include "registry/operations/history.h"
#include "registry/record/judge.h"
#include "store/remote/transfer.h"

namespace mlx::registry {

bool knows_all(Repository& repository, const std::vector<Digest>& heads) {
  return std::ranges::all_of(heads, [&](const Digest& head) { return is_recorded(repository.db(), head); });
}

Beyond beyond(Repository& repository, const std::vector<Digest>& remote_heads) {
  store::Database& db = repository.db();
  Beyond found;
  {
    store::Transaction moment(db, store::Transaction::Access::kRead);  // others record meanwhile
    found.heads = select_heads(db);
    std::vector<std::int64_t> places;
    for (const Digest& head : remote_heads) {
      if (const auto place = place_of(db, head)) places.push_back(*place);
    }
    const std::vector<bool> there = places_before(db, std::move(places));
    visit_operations_where(
        db,
        [&](std::int64_t place) {
          return static_cast<std::size_t>(place) >= there.size() || !there[static_cast<std::size_t>(place)];
        },
        [&](const Operation& operation) { found.operations.add(operation); });
  }
  found.operations.settle_as_added();
  repository.store().reload();
  return found;
}

std::vector<Digest> lost_operations(Repository& repository, store::Remote& remote, const std::vector<Digest>& heads,
                                    std::size_t newest) {
  store::Database& db = repository.db();
  std::vector<std::int64_t> places;
  for (const Digest& head : heads) {
    if (const auto place = place_of(db, head)) places.push_back(*place);
  }
  const std::vector<bool> there = places_before(db, std::move(places));
  std::vector<store::ObjectRef> asked;
  store::Statement select = db.prepare("SELECT seq, id FROM operations ORDER BY seq DESC");
  bool all = true;
  while (select.step() && all) {
    const auto place = static_cast<std::size_t>(select.int64(0));
    if (place >= there.size() || !there[place]) continue;
    if (asked.size() == newest) all = false;
    if (all) asked.emplace_back(store::ObjectKind::kOperation, select.digest(1));
  }
  select.reset();
  std::vector<Digest> lost;
  for (const store::ObjectRef& operation : store::missing_objects(remote, asked)) lost.push_back(operation.second);
  return lost.empty() || all ? lost : lost_operations(repository, remote, heads);
}

BeforeSending judge_before_sending(Repository& repository) {
  if (!declared_people(repository.root()).declared) return {};
  return [&repository](const std::vector<Digest>& heads) {
    Beyond leaving = beyond(repository, heads);
    require_publishable(repository, leaving.operations);
  };
}

}  // namespace mlx::registry
