// Operations in their fixed order, staged on disk in a temporary database that is deleted with the object. A history of
// any length is checked, merged and applied from here, with one operation in memory at a time. Used where all
// operations are read (audit, fsck, adopting a divergent history, rebuilding) and where they travel (push, fetch).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "registry/operations/operation.h"
#include "store/sqlite.h"

namespace mlx::registry {

// A parent and one of its children.
struct Link {
  Digest parent;
  std::int64_t parent_time;
  Operation child;
};

class OperationStage {
 public:
  OperationStage();

  void add(const Operation& operation);  // the caller has verified it; ignored if it is present already
  // Removes the operations with a missing ancestor, and passes each to `lost`, in the fixed order.
  void take_out_incomplete(const std::function<void(const Operation&)>& lost);
  // Call after the last add() and before the functions below.
  void settle();
  // The same, but keeps the order of adding instead of the fixed one. Parents must have been added first.
  void settle_as_added();

  using Visit = std::function<void(const Operation&)>;
  void visit(const Visit& visit);                                // in the fixed order
  void visit_kind(const std::string& kind, const Visit& visit);  // the same for one kind
  // The same in slices, so that all cores can work on one. A slice fits into bounded memory, however many operations
  // there are.
  void visit_slices(const std::function<void(const std::vector<Operation>&)>& visit);
  void visit_ids(const std::function<void(const Digest&)>& visit);  // in the fixed order
  Operation at(std::uint64_t place);                                // places start at 1
  std::optional<std::uint64_t> place_of(const Digest& id);

  std::uint64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool has(const Digest& id);
  bool has_prefix(const std::string& hex);  // true if an id begins with `hex`; true for ""
  bool is_parent(const Digest& id);         // true if an operation here has this parent
  std::optional<std::vector<Digest>> parents_of(const Digest& id);
  std::vector<Digest> heads();  // operations without children, sorted
  // Parents that are not here, each with its child.
  void visit_missing(const std::function<void(const Digest& parent, const Digest& child)>& visit);
  void visit_later_than(std::int64_t time, const Visit& visit);  // in the order of adding
  // Visits links whose child is dated more than `skew` before its parent, while the parent is dated `latest` at most.
  // Children come in the order of adding.
  void visit_backdated(std::int64_t skew, std::int64_t latest, const std::function<void(const Link& link)>& visit);
  // The first operation that was not added at its place, and the one that belongs there.
  std::optional<std::pair<Digest, Digest>> first_misplaced();

 private:
  std::optional<std::int64_t> generation_of(const Digest& id);
  Operation read(std::int64_t row);
  void work_out_generations();

  store::Database db_;
  store::Statement find_, awaited_, insert_, insert_content_, link_, content_, place_of_row_, row_at_;
  std::uint64_t size_ = 0;
  std::int64_t last_row_ = 0;
  // Maintained by add(): whether each came after its parents, and all in the fixed order; the last one's place in that
  // order.
  bool parents_first_ = true, in_order_ = true;
  std::int64_t last_generation_ = -1;
  Digest last_id_;
};

// A temporary database: in memory while it is small, else in the folder for temporary files. Deleted with the object.
// `tables`: SQL that creates its tables.
store::Database scratch_database(const char* tables = "");

// A set of digests of any size, on disk.
class DigestTable {
 public:
  DigestTable();
  bool insert(const Digest& id);  // false if it is present already
  bool contains(const Digest& id);
  void visit(const std::function<void(const Digest&)>& visit);  // sorted

 private:
  store::Database db_;
  store::Statement insert_, find_;
};

}  // namespace mlx::registry
