// Compares counts of the same cells.
#include "monitor/drift.h"

#include <algorithm>

#include "base/json.h"
#include "monitor/two_samples.h"

namespace mlx::monitor {
namespace {

constexpr std::size_t kTenths = 10;

struct Rows {
  std::vector<std::uint64_t> before, after;
};

// Neighbouring cells of numbers are joined to about ten that the reference fills evenly. What is below its least or
// above its largest value has a cell at either end.
Rows tenths_of(const ColumnReference& reference, const std::vector<std::uint64_t>& counts) {
  Rows out;
  const double all = static_cast<double>(reference.seen());
  std::uint64_t passed = 0, before = 0, after = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    before += reference.counts[i], after += counts[i], passed += reference.counts[i];
    const double due = all * static_cast<double>(out.before.size()) / static_cast<double>(kTenths);
    const bool outside = i == 0 || i + 2 >= counts.size();
    if (!outside && static_cast<double>(passed) < due) continue;
    out.before.push_back(before), out.after.push_back(after);
    before = after = 0;
  }
  return out;
}

// The value below which half of the items are; the end of its cell.
double median_of(const ColumnReference& reference, const std::vector<std::uint64_t>& counts) {
  std::uint64_t all = 0, passed = 0;
  for (const std::uint64_t count : counts) all += count;
  if (all == 0 || reference.points.empty()) return 0;
  for (std::size_t i = 0; i < counts.size(); ++i)
    if ((passed += counts[i]) * 2 >= all) return reference.points[std::min(i, reference.points.size() - 1)];
  return reference.points.back();
}

double share_of(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

ColumnDrift compare_column(const ColumnReference& reference, const Window& window, std::size_t place,
                           const DriftOptions& options) {
  const std::vector<std::uint64_t>& counts = window.counts(place);
  ColumnDrift out;
  out.column = reference.column, out.missing = window.missing(place), out.seen = window.items() - out.missing;
  const std::uint64_t all = reference.missing + reference.seen();
  out.missing_before = share_of(reference.missing, all);
  out.missing_after = share_of(out.missing, window.items());
  out.unknown = window.unknown(place);
  out.judged = window.items() >= options.least_items && all >= options.least_items;
  Rows cells = reference.column.number ? tenths_of(reference, counts) : Rows{reference.counts, counts};
  out.before = cells.before, out.after = cells.after, out.values = reference.values;
  cells.before.push_back(reference.missing), cells.after.push_back(out.missing);
  out.psi = stability_index(cells.before, cells.after);
  // Two tests of one column (Bonferroni): how values are spread, and values that are missing or were never seen.
  Test values, absent;
  if (reference.column.number) {
    out.median_before = median_of(reference, reference.counts), out.median_after = median_of(reference, counts);
    values = kolmogorov_smirnov(reference.counts, counts);
    absent = same_share(reference.missing, all, out.missing, window.items());
  } else {
    out.test = "chi2", values = chi_square(reference.counts, counts);
    absent = same_share(reference.missing + reference.counts.back(), all, out.missing + counts.back(), window.items());
  }
  out.statistic = values.statistic;
  out.p = std::min(1.0, 2 * std::min(values.p, absent.p));
  return out;
}

}  // namespace

bool Drift::any() const {
  return std::ranges::any_of(columns, &ColumnDrift::drift);
}

Drift compare(const std::vector<ColumnReference>& reference, const Window& window, const DriftOptions& options) {
  Drift out;
  out.items = window.items();
  std::vector<double> p;
  for (std::size_t i = 0; i < reference.size(); ++i) {
    out.columns.push_back(compare_column(reference[i], window, i, options));
    if (out.columns.back().judged) p.push_back(out.columns.back().p);
  }
  const std::vector<double> q = false_discovery_rates(p);
  auto next = q.begin();
  for (ColumnDrift& column : out.columns) {
    if (!column.judged) continue;
    column.q = *next++;
    column.drift = column.q <= options.level && column.psi >= options.least_psi;
  }
  return out;
}

Json to_json(const Drift& drift) {
  Json columns = Json::array();
  for (const ColumnDrift& each : drift.columns) {
    Json column = {{"column", each.column.name},
                   {"kind", each.column.number ? "number" : "category"},
                   {"prediction", each.column.prediction},
                   {"items", each.seen},
                   {"missing_before", each.missing_before},
                   {"missing_after", each.missing_after},
                   {"psi", each.psi},
                   {"test", each.test},
                   {"statistic", each.statistic},
                   {"p", each.p},
                   {"q", each.q},
                   {"judged", each.judged},
                   {"drift", each.drift}};
    if (each.column.number)
      column["median_before"] = each.median_before, column["median_after"] = each.median_after;
    else
      column["new_values"] = each.unknown;
    columns.push_back(std::move(column));
  }
  return {{"items", drift.items}, {"drift", drift.any()}, {"columns", std::move(columns)}};
}

std::vector<std::string> Persistence::see(const Drift& window) {
  std::vector<std::string> out;
  for (const ColumnDrift& column : window.columns) {
    if (!column.judged) continue;
    std::uint64_t& in_turn = in_turn_[column.column.name];
    in_turn = column.drift ? in_turn + 1 : 0;
    if (in_turn == persist_) out.push_back(column.column.name);
  }
  return out;
}

std::vector<std::string> Persistence::drifted() const {
  std::vector<std::string> out;
  for (const auto& [name, in_turn] : in_turn_)
    if (in_turn >= persist_) out.push_back(name);
  return out;
}

Stream::Stream(const std::vector<ColumnReference>& columns, std::uint64_t size, const DriftOptions& options)
    : columns_(columns),
      options_(options),
      size_(size),
      whole_(columns),
      window_(columns),
      persistence_(options.persist) {}

void Stream::add(std::size_t column, double number) {
  whole_.add(column, number);
  if (size_ > 0) window_.add(column, number);
}

void Stream::add(std::size_t column, std::string_view value) {
  whole_.add(column, value);
  if (size_ > 0) window_.add(column, value);
}

void Stream::next() {
  whole_.next(), ++items_;
  if (size_ == 0) return;
  window_.next();
  if (window_.items() == size_) judge();
}

void Stream::finish() {
  if (size_ > 0 && window_.items() >= options_.least_items) judge();
}

void Stream::judge() {
  const Drift drift = compare(columns_, window_, options_);
  Judged& judged = windows_.emplace_back();
  judged.first = items_ - window_.items(), judged.items = window_.items();
  for (const ColumnDrift& column : drift.columns)
    if (column.drift) judged.differ.push_back(column.column.name);
  judged.established = persistence_.see(drift);
  window_.clear();
}

Drift Stream::whole() const {
  return compare(columns_, whole_, options_);
}

bool Stream::drift() const {
  if (size_ == 0) return whole().any();
  return std::ranges::any_of(windows_, [](const Judged& each) { return !each.established.empty(); });
}

}  // namespace mlx::monitor
