// What is before what in the graph of recorded operations, asked again and again while operations are applied. Made for
// one application of many; each further question costs what is new since the last one.
#pragma once

#include <cstdint>
#include <vector>

#include "store/sqlite.h"

namespace mlx::registry {

class Ancestry {
 public:
  explicit Ancestry(store::Database& db) : db_(db) {}
  // Whether the operation at the place `ancestor` of the fixed order is before the one at `of`. Both are recorded.
  bool precedes(std::int64_t ancestor, std::int64_t of);

 private:
  using Place = std::uint32_t;
  void read_on();              // operations that were recorded since the last question
  bool walk(std::int64_t of);  // marks what is before `of`; whether it came by of_
  void reach(std::int64_t of);

  store::Database& db_;
  std::vector<std::uint64_t> first_parent_ = {0, 0};  // of each place, into parents_; places begin with 1
  std::vector<Place> parents_;
  std::int64_t of_ = 0;       // whose ancestors are marked
  std::vector<bool> before_;  // by place
};

}  // namespace mlx::registry
