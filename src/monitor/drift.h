// Whether a window of data differs from a reference: column by column, with the false alarms of many columns bounded,
// and window by window, where only what lasts is drift.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "monitor/reference.h"

namespace mlx::monitor {

struct DriftOptions {
  double level = 0.01;              // the largest q-value that is believed
  double least_psi = 0.1;           // smaller changes are none, however sure
  std::uint64_t least_items = 100;  // a smaller window is not judged
  std::uint64_t persist = 2;        // so many windows in turn
};

struct ColumnDrift {
  Column column;
  std::uint64_t seen = 0, missing = 0;  // in the window
  double missing_before = 0, missing_after = 0;
  double psi = 0;           // in ten cells of the reference, or by value; missing ones have a cell
  const char* test = "ks";  // or "chi2"
  double statistic = 0, p = 1, q = 1;
  double median_before = 0, median_after = 0;  // of numbers
  // Cells in which psi compares values: what is below, about ten, what is above; or values and all others.
  std::vector<std::uint64_t> before, after;
  std::vector<std::string> values;   // of categories, those of the cells but the last
  std::vector<std::string> unknown;  // values that the reference has not
  bool judged = false;               // both have enough items
  bool drift = false;
};

struct Drift {
  std::uint64_t items = 0;
  std::vector<ColumnDrift> columns;  // in the reference's order
  bool any() const;
};

Drift compare(const std::vector<ColumnReference>& reference, const Window& window, const DriftOptions& options);
Json to_json(const Drift& drift);

// Of windows in turn: a column has drifted once `persist` windows in turn differ. A window in which it could not be
// judged counts for nothing.
class Persistence {
 public:
  explicit Persistence(std::uint64_t persist) : persist_(persist) {}
  // Columns whose drift is established with this window and was not with the one before.
  std::vector<std::string> see(const Drift& window);
  std::vector<std::string> drifted() const;  // now

 private:
  std::uint64_t persist_;
  std::map<std::string, std::uint64_t> in_turn_;
};

// A stream of items, judged in windows of `size`, and as a whole. `columns` outlives it.
class Stream : public Items {
 public:
  struct Judged {
    std::uint64_t first = 0, items = 0;
    std::vector<std::string> differ;       // columns that differ in this window
    std::vector<std::string> established;  // whose drift is established with it
  };
  // `size` 0: there are no windows.
  Stream(const std::vector<ColumnReference>& columns, std::uint64_t size, const DriftOptions& options);
  void add(std::size_t column, double number) override;
  void add(std::size_t column, std::string_view value) override;
  void next() override;
  void finish();  // judges what is left, as far as there is enough

  Drift whole() const;
  const std::vector<Judged>& windows() const { return windows_; }
  // Of windows, whether drift was established in one; without windows, whether the whole differs.
  bool drift() const;

 private:
  void judge();
  const std::vector<ColumnReference>& columns_;
  DriftOptions options_;
  std::uint64_t size_ = 0, items_ = 0;
  Window whole_, window_;
  Persistence persistence_;
  std::vector<Judged> windows_;
};

}  // namespace mlx::monitor
