// Operations put into their fixed order on disk: what a history of any length is checked in, merged in and applied
// from, within the memory of one operation at a time. A temporary database, which is gone with the object. Used where
// all operations are looked at (audit, fsck, adopting what diverged, rebuilding) and where they travel (push, fetch).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "registry/operations/operation.h"
#include "store/sqlite.h"

namespace mlx::registry {

// A parent and one that comes after it.
struct Link {
  Digest parent;
  std::int64_t parent_time;
  Operation child;
};

class OperationStage {
 public:
  OperationStage();

  void add(const Operation& operation);  // verified by whoever adds it; one that is there already is ignored
  // Takes out those with an ancestor that is not there, handing each to `lost`, in the fixed order.
  void take_out_incomplete(const std::function<void(const Operation&)>& lost);
  // After the last of them was added and before what stands below.
  void settle();
  // The same, in the order of adding instead of the fixed one: parents were added first.
  void settle_as_added();

  using Visit = std::function<void(const Operation&)>;
  void visit(const Visit& visit);                                // in the fixed order
  void visit_kind(const std::string& kind, const Visit& visit);  // the same, of one kind
  // The same, several at once for all cores, and no more than memory may hold whatever their number.
  void visit_slices(const std::function<void(const std::vector<Operation>&)>& visit);
  void visit_ids(const std::function<void(const Digest&)>& visit);  // in the fixed order
  Operation at(std::uint64_t place);                                // places count from 1
  std::optional<std::uint64_t> place_of(const Digest& id);

  std::uint64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  bool has(const Digest& id);
  bool has_prefix(const std::string& hex);  // an id that begins so; any for ""
  bool is_parent(const Digest& id);         // of one that is there
  std::optional<std::vector<Digest>> parents_of(const Digest& id);
  std::vector<Digest> heads();  // nobody's parents, sorted
  // Parents that are not there, each with its child.
  void visit_missing(const std::function<void(const Digest& parent, const Digest& child)>& visit);
  void visit_later_than(std::int64_t time, const Visit& visit);  // in order of adding
  // Where the child says a time that is earlier than the parent's by more than `skew`, and the parent one that is not
  // later than `latest`; children in order of adding.
  void visit_backdated(std::int64_t skew, std::int64_t latest, const std::function<void(const Link& link)>& visit);
  // The first that was added elsewhere than at its place, with the one that belongs there.
  std::optional<std::pair<Digest, Digest>> first_misplaced();

 private:
  std::optional<std::int64_t> generation_of(const Digest& id);
  Operation read(std::int64_t row);
  void work_out_generations();

  store::Database db_;
  store::Statement find_, awaited_, insert_, insert_content_, link_, content_, place_of_row_, row_at_;
  std::uint64_t size_ = 0;
  std::int64_t last_row_ = 0;
  // While they are added: whether each came behind its parents, and all in the fixed order; the last one's place in it.
  bool parents_first_ = true, in_order_ = true;
  std::int64_t last_generation_ = -1;
  Digest last_id_;
};

// A database of its own, in memory while it is small and else in the folder for temporary files; gone with the object.
// `tables`: SQL that makes what it begins with.
store::Database scratch_database(const char* tables = "");

// A set of digests of any size, on disk.
class DigestTable {
 public:
  DigestTable();
  bool insert(const Digest& id);  // false where it is there
  bool contains(const Digest& id);
  void visit(const std::function<void(const Digest&)>& visit);  // sorted

 private:
  store::Database db_;
  store::Statement insert_, find_;
};

}  // namespace mlx::registry
