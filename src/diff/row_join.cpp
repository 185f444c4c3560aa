// A merge of two sorted lists of records, group of equal keys by group.
#include "diff/row_join.h"

#include <algorithm>

namespace mlx::diff {

void RowJoin::add(const std::vector<RowRecord>& before, const std::vector<RowRecord>& after) {
  auto a = before.begin(), b = after.begin();
  while (a != before.end() || b != after.end()) {
    const Hash128 key = a == before.end() ? b->key : b == after.end() ? a->key : std::min(a->key, b->key);
    const auto a_end = std::find_if(a, before.end(), [&](const RowRecord& record) { return record.key != key; });
    const auto b_end = std::find_if(b, after.end(), [&](const RowRecord& record) { return record.key != key; });
    add_group({a, a_end}, {b, b_end});
    a = a_end, b = b_end;
  }
}

// Pairs the rows of both sides in order: first with first, second with second.
void RowJoin::add_group(Group before, Group after) {
  auto [a, a_end] = before;
  auto [b, b_end] = after;
  if (by_key) {
    for (auto i = a; i != a_end; ++i)
      if (i != a) ++doubled_before, doubled_before_rows.put(i->offset);
    for (auto i = b; i != b_end; ++i)
      if (i != b) ++doubled_after, doubled_after_rows.put(i->offset);
  }
  for (; a != a_end && b != b_end; ++a, ++b) {
    if (a->content == b->content) continue;
    ++changed;
    changed_rows.put({a->offset, b->offset});
    if (changed <= kept_pairs)
      pairs.emplace_back(a->offset, b->offset);
    else if (!pairs.empty())
      pairs = {};
  }
  for (; a != a_end; ++a) ++removed, removed_rows.put(a->offset);
  for (; b != b_end; ++b) ++added, added_rows.put(b->offset);
}

}  // namespace mlx::diff
