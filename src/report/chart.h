// Line charts, a heat map, a graph and a timeline as inline SVG; colours come from the page's CSS classes, so that
// light and dark differ in the style alone. Used by the sections.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "registry/versions/lineage.h"
#include "registry/versions/runs.h"

namespace mlx::report {

struct Series {
  std::string name;
  std::string kind;  // CSS class: "train", "valid"
  std::vector<std::pair<double, double>> points;
  std::vector<std::pair<double, double>> faint;  // the same before smoothing; may be empty
};

struct LineChart {
  std::string title, x_title;
  bool percent = false;  // y is a share
  std::vector<Series> series;
};
std::string to_svg(const LineChart& chart);

// Round numbers that cover [low, high], at most `count` and a few more.
std::vector<double> ticks(double low, double high, int count);
// At most `count` points, each the mean of its neighbours; the last one kept.
std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points, std::size_t count);

// Rows are truth, columns predicted.
std::string confusion_svg(const std::vector<std::string>& labels,
                          const std::vector<std::vector<std::int64_t>>& confusion);

// What a rank did with its time, in seconds.
struct RankTimes {
  double computing = 0, reading = 0, communicating = 0, waiting = 0;
  double total() const { return computing + reading + communicating + waiting; }
};
struct RankLane {
  std::string name;
  std::vector<RankTimes> epochs;
};
// A lane for each rank; all have as many epochs. "" for none.
std::string timeline_svg(const std::vector<RankLane>& lanes);

// Columns from left to right by the longest path from an origin; the version `subject` is marked.
std::string lineage_svg(const registry::Lineage& lineage, const std::vector<registry::Run>& runs,
                        const Digest& subject);

}  // namespace mlx::report
