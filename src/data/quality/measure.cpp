// Statistics of columns and splits, gathered from observations.

#include "data/quality/measure.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "base/toml.h"
#include "data/quality/associations.h"
#include "data/quality/duplicates.h"
#include "data/quality/personal.h"

namespace mlx::data {
namespace {

// Mean and deviation of a channel of the images' pixels, from 0 to 1.
void add_channel(const std::array<std::uint64_t, 256>& values, SplitStatistics& to) {
  double sum = 0, total = 0, squares = 0;
  for (std::size_t value = 0; value < values.size(); ++value) {
    const auto weight = static_cast<double>(values[value]);
    total += weight, sum += weight * static_cast<double>(value) / 255.0;
  }
  const double mean = total > 0 ? sum / total : 0;
  for (std::size_t value = 0; value < values.size(); ++value) {
    const double off = static_cast<double>(value) / 255.0 - mean;
    squares += static_cast<double>(values[value]) * off * off;
  }
  to.channel_mean.push_back(mean);
  to.channel_std.push_back(total > 0 ? std::sqrt(squares / total) : 0);
}

constexpr std::size_t kBins = 20, kKeptValues = 50, kKeptOutliers = 20;
constexpr double kOutlierScore = 5, kLargestScore = 1e300;
constexpr std::uint64_t kFewForOutliers = 8;

bool is_iso_date(std::string_view text) {
  constexpr std::string_view kShape = "9999-99-99";
  if (text.size() < kShape.size() || text.size() > 35) return false;
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    const bool digit = text[i] >= '0' && text[i] <= '9';
    if (kShape[i] == '9' ? !digit : text[i] != '-') return false;
  }
  const int month = (text[5] - '0') * 10 + text[6] - '0', day = (text[8] - '0') * 10 + text[9] - '0';
  return month >= 1 && month <= 12 && day >= 1 && day <= 31 &&
         (text.size() == 10 || text[10] == 'T' || text[10] == ' ');
}

class ColumnMeasure {
 public:
  // Only the first columns get a large sketch, so that thousands of columns fit into memory.
  explicit ColumnMeasure(std::size_t index) : quantiles_(index < 256 ? 4096 : 256) {}

  void add(const ObservedField& field, std::uint64_t place) {
    type_ = present_++ == 0 ? field.type : join(type_, field.type, TableKind::kJsonLines);
    const bool number = field.type == ValueType::kInt || field.type == ValueType::kFloat;
    if (number && is_measured(field.number)) {
      moments_.add(field.number);
      quantiles_.add(field.number);
      extremes_.add(field.number, place);
    }
    const std::string_view text = field.text;
    const std::string written = text.empty() ? fmt::format("{}", field.number) : std::string();
    const std::string_view shown = text.empty() ? std::string_view(written) : text;
    distinct_.add(hash_of(shown));
    top_.add(shown);
    shortest_ = present_ == 1 ? text.size() : std::min(shortest_, text.size());
    longest_ = std::max(longest_, text.size());
    lengths_ += static_cast<double>(text.size());
    if (is_iso_date(text)) {
      const std::string date(text);
      if (dates_++ == 0 || date < earliest_) earliest_ = date;
      latest_ = std::max(latest_, date);
    }
    if (const char* const kind = personal_kind(text); kind && dates_ == 0) ++personal_[kind];
  }

  // All values, sorted; none if they are numbers or dates, or too many.
  std::vector<std::string> classes() const {
    std::vector<std::string> out;
    const bool named = type_ == ValueType::kText || type_ == ValueType::kBool;
    if (!named || dates_ == present_ || !top_.exact()) return out;
    for (const auto& [value, count] : top_.sorted()) out.push_back(printable(value));
    std::ranges::sort(out);
    return out;
  }

  // `numbers_by_place` of the extremes are filled in by the caller, who knows lines.
  ColumnStatistics finish(const std::string& name, std::uint64_t items) const {
    ColumnStatistics out;
    out.name = printable(name);
    out.count = items, out.missing = items - present_;
    out.type = present_ == 0 ? "" : dates_ == present_ ? "date" : type_ == ValueType::kNull ? "" : name_of(type_);
    out.distinct = distinct_.count(), out.distinct_exact = distinct_.exact();
    out.top_exact = top_.exact();
    for (const auto& [value, count] : top_.sorted()) {
      ValueCount kept{printable(value), count};
      if (kept.value != value || value.size() >= TopValues::kLongest) out.top_whole = false;
      if (out.top_exact) out.rarest = kept;
      if (out.top.size() < kKeptValues) out.top.push_back(std::move(kept));
    }
    out.shortest = shortest_, out.longest = longest_;
    out.mean_length = present_ == 0 ? 0 : lengths_ / static_cast<double>(present_);
    if (out.type == "date") out.earliest = earliest_, out.latest = latest_;
    out.personal = personal_;
    finish_numbers(out);
    return out;
  }

 private:
  void finish_numbers(ColumnStatistics& out) const {
    out.numbers = moments_.count;
    if (out.numbers == 0) return;
    out.low = moments_.low, out.high = moments_.high, out.mean = moments_.mean, out.std = moments_.std();
    const auto weighted = quantiles_.weighted();
    std::vector<double> shares(101);
    for (std::size_t i = 0; i <= 100; ++i) shares[i] = static_cast<double>(i) / 100;
    out.percentiles = quantiles_of(weighted, shares);
    out.percentiles.front() = out.low, out.percentiles.back() = out.high;
    out.histogram.assign(kBins, 0);
    const double range = out.high - out.low;
    for (const auto& [value, weight] : weighted) {
      const double place = range > 0 ? (value - out.low) / range * static_cast<double>(kBins) : 0;
      out.histogram[std::min(static_cast<std::size_t>(place), kBins - 1)] += weight;
    }
    find_outliers(weighted, out);
  }

  // By the median absolute deviation, which outliers themselves do not move.
  void find_outliers(const std::vector<std::pair<double, std::uint64_t>>& weighted, ColumnStatistics& out) const {
    const double median = out.percentiles[50];
    std::vector<std::pair<double, std::uint64_t>> off;
    off.reserve(weighted.size());
    for (const auto& [value, weight] : weighted) off.emplace_back(std::abs(value - median), weight);
    std::ranges::sort(off);
    const double deviation = quantiles_of(off, {0.5})[0];
    if (deviation <= 0 || out.numbers < kFewForOutliers) return;
    for (const auto& [distance, weight] : off)
      if (0.6745 * distance / deviation > kOutlierScore) out.outliers += weight;
    for (const auto& [value, place] : extremes_.all()) {
      // Finite also where the deviation is tiny.
      const double score = std::clamp(0.6745 * (value - median) / deviation, -kLargestScore, kLargestScore);
      if (std::abs(score) > kOutlierScore) out.outlier_examples.push_back({place, value, score});
    }
    std::ranges::stable_sort(out.outlier_examples, std::greater<>(),
                             [](const Outlier& each) { return std::abs(each.score); });
    out.outlier_examples.resize(std::min(out.outlier_examples.size(), kKeptOutliers));
    out.outliers = std::max<std::uint64_t>(out.outliers, out.outlier_examples.size());
  }

  ValueType type_ = ValueType::kNull;
  std::uint64_t present_ = 0, dates_ = 0;
  Moments moments_;
  Quantiles quantiles_;
  Extremes extremes_;
  Distinct distinct_;
  TopValues top_;
  std::size_t shortest_ = 0, longest_ = 0;
  double lengths_ = 0;
  std::string earliest_, latest_;
  std::map<std::string, std::uint64_t> personal_;
};

// Turns places into numbers, all at once: for a table each call reads the file again.
class Numbering {
 public:
  void want(std::uint64_t& place) { places_.push_back(&place); }
  void want(Duplicates& duplicates) {
    for (auto& [first, again] : duplicates.examples) want(first), want(again);
  }
  void resolve(const StoredSplit& split) {
    std::vector<std::uint64_t> values;
    for (const std::uint64_t* place : places_) values.push_back(*place);
    values = numbers_of(split, std::move(values));
    for (std::size_t i = 0; i < places_.size(); ++i) *places_[i] = values[i];
  }

 private:
  std::vector<std::uint64_t*> places_;
};

struct Measured {
  SplitStatistics statistics;
  Prints prints;
};

Measured measure_split(const StoredSplit& split, const std::string& name, const std::string& target, const Watch& watch,
                       Progress& progress) {
  Measured out;
  std::vector<ColumnMeasure> columns;
  const bool images = split.kind->form == Form::kImages;
  Associations associations(images && target.empty() ? "class" : target);
  const ScanFacts facts = scan(
      split,
      [&](const Observation& item) {
        while (columns.size() < item.columns->size()) columns.emplace_back(columns.size());
        for (const ObservedField& field : *item.fields) columns[field.column].add(field, item.place);
        associations.add(item);
        out.prints.add(item);
        if (watch) watch(name, item);
      },
      progress);
  while (columns.size() < facts.columns.size()) columns.emplace_back(columns.size());

  SplitStatistics& to = out.statistics;
  to.kind = split.kind->name;
  to.unit = item_scan(split).unit, to.place_word = item_scan(split).place_word;
  to.files = facts.files, to.found_out = facts.found_out;
  to.unread = facts.unread, to.unread_count = facts.unread_count;
  to.source_word = facts.unread_word ? facts.unread_word : item_scan(split).source_word;
  to.items = facts.items, to.bytes = facts.bytes;
  to.height = facts.height, to.width = facts.width, to.channels = facts.channels;
  for (const auto& values : facts.pixel_values) add_channel(values, to);
  for (std::size_t i = 0; i < columns.size(); ++i)
    to.columns.push_back(columns[i].finish(facts.columns[i], facts.items));
  if (!target.empty() && !to.column(target)) {
    std::vector<std::string> names;
    for (const ColumnStatistics& column : to.columns) names.push_back(column.name);
    const std::string meant = did_you_mean(target, names);
    throw Error(ErrorKind::kNotFound, fmt::format("{} has no column '{}', the target", facts.files.at(0), target),
                meant.empty() ? "name a column with --target, or [check] target in dataset.toml"
                              : fmt::format("did you mean '{}'?", meant));
  }
  const std::string classes = images && target.empty() ? "class" : target;
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (to.columns[i].name == classes) to.classes = columns[i].classes();
  associations.finish(to);
  to.equal = equal_items(out.prints);
  to.alike = alike_items(out.prints);
  Numbering numbering;
  for (ColumnStatistics& column : to.columns)
    for (Outlier& outlier : column.outlier_examples) numbering.want(outlier.number);
  numbering.want(to.equal), numbering.want(to.alike);
  numbering.resolve(split);
  return out;
}

}  // namespace

Statistics measure_statistics(const store::Store& store, const Digest& manifest, const std::string& only,
                              const std::string& target, const Watch& watch, Progress& progress) {
  std::vector<std::string> names = only.empty() ? splits(store, manifest) : std::vector<std::string>{only};
  if (names.empty()) names = {"train"};  // which scanned_split() says is not there
  // Leaks are looked for from the training split to the others, and from the validation split to the test split.
  constexpr std::array<std::string_view, 3> kFirst = {"train", "valid", "test"};
  std::ranges::stable_sort(names, {},
                           [&](const std::string& name) { return std::ranges::find(kFirst, name) - kFirst.begin(); });
  Statistics out;
  std::vector<std::pair<std::string, Prints>> seen;
  for (const std::string& name : names) {
    const StoredSplit split = scanned_split(store, manifest, name);
    Measured measured = measure_split(split, name, target, watch, progress);
    for (auto& [from, prints] : seen) {
      if (out.splits.at(from).kind != measured.statistics.kind) continue;
      Leak leak = leak_between(from, prints, name, measured.prints);
      if (leak.equal == 0 && leak.alike == 0) continue;
      Numbering left, right;
      for (auto* const list : {&leak.examples, &leak.alike_examples})
        for (auto& [first, again] : *list) left.want(first), right.want(again);
      left.resolve(scanned_split(store, manifest, from)), right.resolve(split);
      out.leaks.push_back(std::move(leak));
    }
    out.splits[name] = std::move(measured.statistics);
    seen.emplace_back(name, std::move(measured.prints));
  }
  return out;
}

}  // namespace mlx::data
