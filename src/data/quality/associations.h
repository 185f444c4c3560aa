// What goes with what: correlations between columns of numbers, and each column against the target. Fed with
// observations, in bounded memory: the first 32 columns that hold numbers, the first 50 values of each column.
// Used by measure.cpp.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/quality/scan.h"
#include "data/quality/sketches.h"
#include "data/quality/statistics.h"

namespace mlx::data {

class Associations {
 public:
  explicit Associations(std::string target) : target_(std::move(target)) {}
  void add(const Observation& item);
  // Fills correlations, with_target and groups; `split` has its columns.
  void finish(SplitStatistics& split) const;

 private:
  static constexpr std::size_t kNumbers = 32, kValues = 50, kColumns = 256;
  struct Pair {  // co-moments of two columns, over items that have both (Bennett et al., 2009)
    double count = 0, mean_a = 0, mean_b = 0, squares_a = 0, squares_b = 0, products = 0;
    void add(double a, double b);
    double correlation() const;
  };
  struct AgainstTarget {
    std::map<std::string, std::map<std::string, std::uint64_t>, std::less<>> counts;  // value → class → items
    std::map<std::string, Moments, std::less<>> target_by_value;                      // the target as a number
    std::map<std::string, Moments, std::less<>> number_by_class;
    Pair pair;
  };
  void add_correlations(const std::vector<ObservedField>& fields);
  void add_against_target(const Observation& item);

  std::string target_;
  std::size_t target_column_ = static_cast<std::size_t>(-1);
  std::vector<std::uint32_t> number_columns_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Pair> pairs_;
  std::vector<Pair*> dense_;  // pairs_ by place: i * kNumbers + j
  std::map<std::uint32_t, AgainstTarget> against_;
  std::map<std::string, int, std::less<>> classes_;
};

}  // namespace mlx::data
