// Divides the items of a split by a rule (split_rule.h). Used by the readers of each kind and by the scan of quality/.
//
// fraction     an item's part depends on its content and the seed alone: equal items are in one split, and new items
//              move no others. Of IDX images, whose content is not read for that, the number counts. Shares are met on
//              average.
// group        the same with the value of a column: a group is in one split. Items without a value are groups of one.
// column       the value says the part.
// time         the newest items are "test", the ones before "valid"; equal times stay together, so a part may be larger
//              than its share.
// stratified   in each class the items are ordered by a hash as above, and each part takes its share, rounded.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/interruption.h"
#include "data/order.h"
#include "data/row_value.h"
#include "data/split_rule.h"
#include "store/pack/store.h"

namespace mlx::data {

class Divider {
 public:
  explicit Divider(const SplitRule& rule) : rule_(rule) {}
  // Takes the next item: the hash of its content, and the value of the rule's column ("" if there is none). Returns
  // what is wrong with the value, null if nothing.
  const char* add(std::uint64_t content, std::string_view value);
  // The part of each item. Throws kUsage if the rule leaves a split empty.
  std::vector<Part> finish();

 private:
  Part drawn(std::uint64_t hash) const;
  void by_time();
  void by_class();

  const SplitRule& rule_;
  std::vector<Part> parts_;
  std::vector<double> times_;                                       // of kTime, in seconds or as the column counts
  bool dates_ = false;                                              // they are dates, not numbers
  std::vector<std::uint64_t> hashes_;                               // of kStratified
  std::vector<std::uint32_t> classes_;                              // of kStratified
  std::unordered_map<std::string, std::uint32_t> number_of_class_;  // of kStratified
};

// Of a table's rows. Throws kUsage if it lacks the rule's column, kCorrupt with the line for a wrong value.
std::vector<Part> divide_rows(const RowFile& file, const SplitRule& rule, const Interruption& interruption);
// Of items that are known by their number and class alone.
std::vector<Part> divide_numbered(std::span<const std::int32_t> labels, const SplitRule& rule);
// Of whole files, by their content.
std::vector<Part> divide_files(const std::vector<store::Entry>& files, const SplitRule& rule);
std::uint64_t content_of(const store::Entry& file);  // as a hash, for Divider::add

IndexSet items_of(const std::vector<Part>& parts, Part part);
// Seconds since 1970 of "2026-01-31", "2026-01-31 13:45", "2026-01-31T13:45:10.5+02:00"; nullopt for other text.
std::optional<double> seconds_of(std::string_view date);

// Which items of its files a split has: all unless it is a part of a division.
class InPart {
 public:
  InPart() = default;
  InPart(const std::vector<Part>& parts, Part part) : items_(items_of(parts, part)), all_(false) {}
  // Asked once for each item, in order.
  bool next() {
    const std::int64_t item = item_++;
    if (all_) return true;
    const bool in = at_ < items_.size() && items_[at_] == item;
    at_ += in ? 1 : 0;
    return in;
  }

 private:
  IndexSet items_;
  bool all_ = true;
  std::int64_t item_ = 0, at_ = 0;
};

}  // namespace mlx::data
