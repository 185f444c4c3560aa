// What is known of a dataset's content: of each split its columns, its duplicates, what goes with what; and which items
// two splits share. Made in one pass (measure.h), kept with a version as JSON, compared between versions (drift.h).
// Every number is finite; where there is nothing to measure, it is 0.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/json_fwd.h"

namespace mlx::data {

struct Outlier {
  std::uint64_t number = 0;  // line or image (numbers_of)
  double value = 0, score = 0;
  bool operator==(const Outlier&) const = default;
};

struct ValueCount {
  std::string value;
  std::uint64_t count = 0;
  bool operator==(const ValueCount&) const = default;
};

struct ColumnStatistics {
  std::string name, type;  // int, float, bool, date, text, mixed, list, object; "" if every value is missing
  std::uint64_t count = 0, missing = 0;  // items; those without a value

  // Of values that are numbers.
  std::uint64_t numbers = 0;
  double low = 0, high = 0, mean = 0, std = 0;
  std::vector<double> percentiles;       // the 101 from 0 % to 100 %; none without numbers
  std::vector<std::uint64_t> histogram;  // equal parts of [low, high]
  std::uint64_t outliers = 0;            // |0.6745 (x - median) / MAD| > 5 (Iglewicz and Hoaglin, 1993); an estimate
  std::vector<Outlier> outlier_examples;

  // Of all values as text.
  std::uint64_t distinct = 0;
  bool distinct_exact = true, top_exact = true;
  std::vector<ValueCount> top;  // at most 50, most frequent first; values are cut, and made printable
  bool top_whole = true;        // none of them is
  ValueCount rarest;            // if top_exact
  std::uint64_t shortest = 0, longest = 0;
  double mean_length = 0;
  std::string earliest, latest;  // of dates (YYYY-MM-DD …)

  std::map<std::string, std::uint64_t> personal;  // values that look like "email", "iban" …

  bool is_number() const { return type == "int" || type == "float"; }
  bool is_category() const { return !is_number() && !top.empty() && top_exact && distinct <= top.size(); }
};

struct Association {
  std::string a, b;
  double strength = 0;  // -1 to 1 for correlation, else 0 to 1
  std::string measure;  // "correlation" (Pearson), "correlation ratio" (eta), "Cramer's V"
};

// The target within the items that have one value of a column, or a number within those of one class.
struct TargetGroup {
  std::string column, group;
  std::uint64_t count = 0;
  double mean = 0;                  // of the number
  std::vector<ValueCount> classes;  // or the target's classes
};

struct Duplicates {
  std::uint64_t items = 0;                                        // that are the same as an earlier one
  std::vector<std::pair<std::uint64_t, std::uint64_t>> examples;  // their numbers: the first, the same again
};

struct SplitStatistics {
  std::string kind, unit, place_word, found_out;  // "rows", "rows", "line"
  std::vector<std::string> files;
  // ScanFacts::unread, and what these are: photos, documents.
  std::vector<std::string> unread;
  std::uint64_t unread_count = 0;
  std::string source_word;
  std::uint64_t items = 0, bytes = 0;
  std::int64_t height = 0, width = 0, channels = 0;  // of images
  std::vector<double> channel_mean, channel_std;     // from 0 to 1
  std::vector<ColumnStatistics> columns;
  std::string target;
  std::vector<std::string> classes;       // all values of the target, sorted, unless they are numbers or too many
  std::vector<Association> correlations;  // between numbers, strongest first
  std::vector<Association> with_target;   // each column and the target, strongest first
  std::vector<TargetGroup> groups;
  Duplicates equal, alike;  // the same; images that look alike and rows that are almost the same, but differ

  const ColumnStatistics* column(const std::string& name) const;  // null if there is none
  // Photos have a file each, in the order of their numbers.
  bool names_items() const { return channels > 0 && files.size() == items; }
  std::string place(std::uint64_t number) const;  // "line 12", "train/cat/1.jpg"
};

// Items of one split that are in another one.
struct Leak {
  std::string from, to;  // of "test" (to), so many are in "train" (from)
  std::uint64_t equal = 0, alike = 0;
  double equal_share = 0, alike_share = 0;                        // of the items of `to`
  std::vector<std::pair<std::uint64_t, std::uint64_t>> examples;  // numbers in from and to
  std::vector<std::pair<std::uint64_t, std::uint64_t>> alike_examples;
};

struct Statistics {
  std::map<std::string, SplitStatistics> splits;
  std::vector<Leak> leaks;  // only those with at least one item
};

// The form of kept statistics. Its number grows when the form changes, or when the same data gives other numbers:
// statistics of another number are measured again.
constexpr const char* kStatisticsFormat = "mlx.statistics/4";
Json to_json(const Statistics& statistics);
Statistics statistics_from_json(const Json& json, const std::string& what);  // kCorrupt naming `what`

}  // namespace mlx::data
