// Ancestor queries in the graph of recorded operations, for use while operations are applied. Make one for each
// application of many operations; a further query costs only what is new since the last one.
#pragma once

#include <cstdint>
#include <vector>

#include "store/sqlite.h"

namespace mlx::registry {

class Ancestry {
 public:
  explicit Ancestry(store::Database& db) : db_(db) {}
  // True if the operation at place `ancestor` of the fixed order is an ancestor of the one at `of`. Both are recorded.
  bool precedes(std::int64_t ancestor, std::int64_t of);

 private:
  using Place = std::uint32_t;
  void read_on();              // reads the operations recorded since the last query
  bool walk(std::int64_t of);  // marks the ancestors of `of`; true if it reached of_
  void reach(std::int64_t of);

  store::Database& db_;
  std::vector<std::uint64_t> first_parent_ = {0, 0};  // by place: index into parents_; places start at 1
  std::vector<Place> parents_;
  std::int64_t of_ = 0;       // whose ancestors are marked
  std::vector<bool> before_;  // by place
};

}  // namespace mlx::registry
