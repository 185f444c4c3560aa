// A lane for each rank, time from left to right: in each column the shares of what the rank did.
#include <algorithm>
#include <array>
#include <iterator>

#include "report/chart.h"
#include "report/html.h"

namespace mlx::report {
namespace {

constexpr double kWide = 1040, kLaneLeft = 150, kLaneRight = 64, kLaneTop = 48, kLaneHeight = 22, kLaneGap = 8;
constexpr std::size_t kColumns = 160;  // at most

struct Part {
  const char *kind, *name;  // CSS class; words
  double RankTimes::*seconds;
};
constexpr std::array<Part, 4> kParts = {{{"computing", "computing", &RankTimes::computing},
                                         {"reading", "waiting for batches", &RankTimes::reading},
                                         {"communicating", "communicating", &RankTimes::communicating},
                                         {"waiting", "waiting for other ranks", &RankTimes::waiting}}};

RankTimes sum_of(const std::vector<RankTimes>& times, std::size_t begin, std::size_t end) {
  RankTimes out;
  for (std::size_t i = begin; i < end; ++i)
    for (const Part& part : kParts) out.*part.seconds += times[i].*part.seconds;
  return out;
}

class Timeline {
 public:
  explicit Timeline(const std::vector<RankLane>& lanes) : lanes_(lanes), epochs_(lanes.front().epochs.size()) {
    const std::size_t columns = std::min(kColumns, epochs_);
    double at = 0;
    for (std::size_t i = 0; i < columns; ++i) {
      Column column{i * epochs_ / columns, (i + 1) * epochs_ / columns, at, 0};
      for (const RankLane& lane : lanes)
        column.seconds = std::max(column.seconds, sum_of(lane.epochs, column.begin, column.end).total());
      at += column.seconds;
      columns_.push_back(column);
    }
    seconds_ = std::max(at, 1e-9);
  }

  std::string draw() {
    const double height = kLaneTop + static_cast<double>(lanes_.size()) * (kLaneHeight + kLaneGap) + 40;
    const std::string about = escape(description());
    fmt::format_to(
        to(), "<figure><svg class=\"ranks\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\"><title>{}</title>\n",
        kWide, height, about, about);
    fmt::format_to(to(), "<text class=\"heading\" x=\"0\" y=\"18\">Ranks over time</text>\n");
    legend();
    axis(height - 40);
    for (std::size_t i = 0; i < lanes_.size(); ++i)
      lane(lanes_[i], kLaneTop + static_cast<double>(i) * (kLaneHeight + kLaneGap));
    return out_ + "</svg></figure>\n";
  }

 private:
  struct Column {
    std::size_t begin, end;  // epochs
    double start, seconds;
  };
  std::back_insert_iterator<std::string> to() { return std::back_inserter(out_); }
  double x(double seconds) const { return kLaneLeft + seconds / seconds_ * (kWide - kLaneLeft - kLaneRight); }

  std::string description() const {
    std::string text = "Ranks over time";
    for (const RankLane& lane : lanes_) text += fmt::format(", {} computes {}", lane.name, computing(lane));
    return text;
  }

  std::string computing(const RankLane& lane) const {
    const RankTimes all = sum_of(lane.epochs, 0, epochs_);
    return percent(all.total() > 0 ? all.computing / all.total() : 0, 0);
  }

  void legend() {
    double at = kLaneLeft;
    for (const Part& part : kParts) {
      fmt::format_to(to(), "<rect class=\"{}\" x=\"{:.0f}\" y=\"8\" width=\"12\" height=\"12\" rx=\"2\"/>", part.kind,
                     at);
      fmt::format_to(to(), "<text class=\"legend\" x=\"{:.0f}\" y=\"18\">{}</text>\n", at + 18, part.name);
      at += 18 + 6.6 * static_cast<double>(std::string_view(part.name).size()) + 20;
    }
    fmt::format_to(to(), "<text class=\"tick end\" x=\"{}\" y=\"18\">computing</text>\n", kWide);
  }

  void axis(double y) {
    for (const double v : ticks(0, seconds_, 8)) {
      fmt::format_to(to(), "<path class=\"grid\" d=\"M{:.1f} {}V{:.1f}\"/>", x(v), kLaneTop - 6, y);
      fmt::format_to(to(), "<text class=\"tick middle\" x=\"{:.1f}\" y=\"{:.1f}\">{:g}</text>\n", x(v), y + 16, v);
    }
    fmt::format_to(to(), "<text class=\"tick middle\" x=\"{}\" y=\"{:.1f}\">seconds of training steps</text>\n",
                   (kLaneLeft + kWide - kLaneRight) / 2, y + 34);
  }

  void lane(const RankLane& lane, double top) {
    const double middle = top + kLaneHeight / 2 + 4;
    fmt::format_to(to(), "<text x=\"0\" y=\"{:.1f}\">{}</text>", middle, escape(lane.name));
    for (const Column& column : columns_) {
      const RankTimes times = sum_of(lane.epochs, column.begin, column.end);
      double bottom = top + kLaneHeight;
      for (const Part& part : kParts) {
        const double share = times.total() > 0 ? times.*part.seconds / times.total() : 0, tall = share * kLaneHeight;
        bottom -= tall;
        if (tall < 0.05) continue;
        fmt::format_to(to(), "<rect class=\"{}\" x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\"/>",
                       part.kind, x(column.start), bottom, x(column.start + column.seconds) - x(column.start), tall);
      }
    }
    fmt::format_to(to(), "<text class=\"legend end\" x=\"{}\" y=\"{:.1f}\">{}</text>\n", kWide, middle,
                   computing(lane));
  }

  const std::vector<RankLane>& lanes_;
  std::size_t epochs_;
  std::vector<Column> columns_;
  double seconds_ = 1;
  std::string out_;
};

}  // namespace

std::string timeline_svg(const std::vector<RankLane>& lanes) {
  if (lanes.empty() || lanes.front().epochs.empty()) return "";
  return Timeline(lanes).draw();
}

}  // namespace mlx::report
