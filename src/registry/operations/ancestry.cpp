// Most queries are about a descendant of the operation in the query before. The ancestors of that one are marked
// already, so the walk back ends there.
#include "registry/operations/ancestry.h"

namespace mlx::registry {

void Ancestry::read_on() {
  const auto read = static_cast<std::int64_t>(first_parent_.size()) - 2;
  store::Statement select = db_.prepare(
      "SELECT c.seq, p.seq FROM operations c LEFT JOIN operation_parents e ON e.child = c.id"
      " LEFT JOIN operations p ON p.id = e.parent WHERE c.seq > ? ORDER BY c.seq");
  for (select.bind(read); select.step();) {
    const auto place = static_cast<std::size_t>(select.int64(0));
    while (first_parent_.size() < place + 2) first_parent_.push_back(parents_.size());
    const std::int64_t parent = select.null(1) ? 0 : select.int64(1);
    if (parent > 0 && parent < select.int64(0)) parents_.push_back(static_cast<Place>(parent));  // else altered rows
    first_parent_.back() = parents_.size();
  }
}

bool Ancestry::walk(std::int64_t of) {
  bool passed = false;
  std::vector<Place> todo = {static_cast<Place>(of)};
  while (!todo.empty()) {
    const std::size_t place = todo.back();
    todo.pop_back();
    for (std::uint64_t i = first_parent_[place]; i < first_parent_[place + 1]; ++i) {
      const Place parent = parents_[i];
      if (parent == of_) passed = true;
      if (before_[parent]) continue;
      before_[parent] = true;
      if (parent != of_) todo.push_back(parent);
    }
  }
  return passed;
}

void Ancestry::reach(std::int64_t of) {
  before_.resize(first_parent_.size(), false);
  if (!walk(of)) {  // not a descendant: some marked places are not ancestors
    before_.assign(first_parent_.size(), false);
    of_ = 0;
    walk(of);
  }
  of_ = of;
}

bool Ancestry::precedes(std::int64_t ancestor, std::int64_t of) {
  if (ancestor < 1 || ancestor >= of) return false;
  if (static_cast<std::size_t>(of) + 2 > first_parent_.size()) read_on();
  if (static_cast<std::size_t>(of) + 2 > first_parent_.size()) return false;
  if (of != of_) reach(of);
  return before_[static_cast<std::size_t>(ancestor)];
}

}  // namespace mlx::registry
