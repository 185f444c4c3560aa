// Line charts: nice ticks, a faint band of raw values, a line of means, and the last value beside its name.
#include <algorithm>
#include <cmath>
#include <iterator>

#include "report/chart.h"
#include "report/html.h"

namespace mlx::report {
namespace {

constexpr double kWidth = 560, kHeight = 300, kLeft = 52, kRight = 16, kTop = 40, kBottom = 44;

struct Range {
  double low = 0, high = 1;
};

// The first steps of a training may be far from the rest: they may lie outside of the chart.
std::vector<double> settled(const Series& series) {
  const std::size_t first = series.points.size() >= 20 ? series.points.size() / 12 : 0;
  std::vector<double> values;
  for (std::size_t i = first; i < series.points.size(); ++i) values.push_back(series.points[i].second);
  return values;
}

Range padded(Range range, double pad) {
  if (range.low > range.high) return {};
  if (range.high - range.low < 1e-9) return {range.low - 0.5, range.high + 0.5};
  const double more = pad * (range.high - range.low);
  return {range.low - more, range.high + more};
}

Range x_range(const LineChart& chart) {
  Range range{0, 1e-300};
  for (const Series& series : chart.series)
    for (const auto& point : series.points) range.high = std::max(range.high, point.first);
  return range.high > 1e-9 ? range : Range{};
}

Range y_range(const LineChart& chart) {
  Range range{1e300, -1e300};
  for (const Series& series : chart.series) {
    for (const double value : settled(series)) {
      range.low = std::min(range.low, value);
      range.high = std::max(range.high, value);
    }
  }
  const bool positive = range.low >= 0;
  range = padded(range, 0.08);
  if (positive) range.low = std::max(range.low, 0.0);
  if (chart.percent) range.high = std::min(range.high, 1.0);
  return range;
}

class Plot {
 public:
  explicit Plot(const LineChart& chart) : chart_(chart), x_(x_range(chart)), y_(y_range(chart)) {}

  std::string draw() {
    fmt::format_to(to(), "<figure><svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\"><title>{}</title>\n",
                   kWidth, kHeight, escape(description()), escape(description()));
    fmt::format_to(to(), "<text class=\"heading\" x=\"{}\" y=\"18\">{}</text>\n", kLeft, escape(chart_.title));
    axes();
    legend();
    // A nested viewport clips at its edges, without an id that two charts of a page would share.
    fmt::format_to(to(), "<svg x=\"{0}\" y=\"{1}\" width=\"{2}\" height=\"{3}\" viewBox=\"{0} {1} {2} {3}\">\n", kLeft,
                   kTop - 6, kWidth - kLeft, kHeight - kTop - kBottom + 6);
    for (const Series& series : chart_.series) path(series.faint, "line faint " + series.kind);
    for (const Series& series : chart_.series) {
      path(series.points, "line " + series.kind);
      dots(series);
    }
    return out_ + "</svg></svg></figure>\n";
  }

 private:
  std::back_insert_iterator<std::string> to() { return std::back_inserter(out_); }
  double x(double v) const { return kLeft + (v - x_.low) / (x_.high - x_.low) * (kWidth - kLeft - kRight); }
  double y(double v) const {
    return kHeight - kBottom - (v - y_.low) / (y_.high - y_.low) * (kHeight - kTop - kBottom);
  }
  std::string shown(double v) const { return chart_.percent ? percent(v) : fmt::format("{:.4f}", v); }
  std::string description() const {
    std::string text = chart_.title;
    for (const Series& series : chart_.series)
      if (!series.points.empty())
        text += fmt::format(", {} ends at {}", series.name, shown(series.points.back().second));
    return text;
  }

  void axes() {
    const std::vector<double> across = ticks(y_.low, y_.high, 5);
    const double step = across.size() > 1 ? across[1] - across[0] : 1;
    const int digits = std::max(0, static_cast<int>(std::ceil(-std::log10(step * (chart_.percent ? 100 : 1)) - 1e-9)));
    for (const double v : across) {
      fmt::format_to(
          to(), "<path class=\"grid\" d=\"M{} {:.1f}H{}\"/><text class=\"tick end\" x=\"{}\" y=\"{:.1f}\">{}</text>\n",
          kLeft, y(v), kWidth - kRight, kLeft - 8, y(v) + 4,
          chart_.percent ? fmt::format("{:.{}f}%", 100 * v, digits) : fmt::format("{:.{}f}", v, digits));
    }
    for (const double v : ticks(x_.low, x_.high, 8)) {
      fmt::format_to(to(), "<text class=\"tick middle\" x=\"{:.1f}\" y=\"{}\">{}</text>\n", x(v),
                     kHeight - kBottom + 18, v);
    }
    fmt::format_to(
        to(), "<path class=\"axis\" d=\"M{} {}H{}\"/><text class=\"tick middle\" x=\"{}\" y=\"{}\">{}</text>\n", kLeft,
        kHeight - kBottom, kWidth - kRight, (kLeft + kWidth - kRight) / 2, kHeight - 8, escape(chart_.x_title));
  }

  void legend() {
    double right = kWidth - kRight;
    for (auto series = chart_.series.rbegin(); series != chart_.series.rend(); ++series) {
      if (series->points.empty()) continue;
      const std::string text = fmt::format("{} {}", series->name, shown(series->points.back().second));
      fmt::format_to(to(), "<text class=\"legend end\" x=\"{:.1f}\" y=\"18\">{}</text>", right, escape(text));
      right -= 6.6 * static_cast<double>(text.size()) + 8;
      fmt::format_to(to(), "<path class=\"line {}\" d=\"M{:.1f} 14h14\"/>\n", series->kind, right - 14);
      right -= 34;
    }
  }

  // All of a few points are marked; of many only the last.
  void dots(const Series& series) {
    for (std::size_t i = series.points.size() > 24 ? series.points.size() - 1 : 0; i < series.points.size(); ++i)
      fmt::format_to(to(), "<circle class=\"dot {}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\"/>\n", series.kind,
                     x(series.points[i].first), y(series.points[i].second));
  }

  void path(const std::vector<std::pair<double, double>>& points, const std::string& kind) {
    if (points.empty()) return;
    std::string d;
    for (const auto& point : points)
      fmt::format_to(std::back_inserter(d), "{}{:.1f} {:.1f}", d.empty() ? "M" : "L", x(point.first), y(point.second));
    fmt::format_to(to(), "<path class=\"{}\" d=\"{}\"/>\n", kind, d);
  }

  const LineChart& chart_;
  Range x_, y_;
  std::string out_;
};

}  // namespace

std::vector<double> ticks(double low, double high, int count) {
  const double rough = (high - low) / std::max(1, count);
  if (!(rough > 0) || !std::isfinite(rough)) return {low};
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double nice : {1.0, 2.0, 5.0})
    if (nice * power >= rough * 0.999) {
      step = nice * power;
      break;
    }
  std::vector<double> out;
  for (double i = std::ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i)
    out.push_back(i * step + 0.0);  // no -0
  return out;
}

std::vector<std::pair<double, double>> thinned(const std::vector<std::pair<double, double>>& points,
                                               std::size_t count) {
  if (points.size() <= count) return points;
  std::vector<std::pair<double, double>> out;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t first = i * points.size() / count, last = (i + 1) * points.size() / count;
    double sum = 0;
    for (std::size_t at = first; at < last; ++at) sum += points[at].second;
    out.emplace_back(points[last - 1].first, sum / static_cast<double>(last - first));
  }
  return out;
}

std::string to_svg(const LineChart& chart) {
  return Plot(chart).draw();
}

}  // namespace mlx::report
