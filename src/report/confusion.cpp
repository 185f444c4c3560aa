// The confusion matrix as a heat map: a cell's strength is its share of the row (the true class).
#include <algorithm>
#include <iterator>

#include "report/chart.h"
#include "report/html.h"

namespace mlx::report {
namespace {

constexpr double kCell = 46, kLetter = 7.2;
constexpr std::size_t kMostCells = 40;  // a larger matrix would be unreadable

// Names are cut to their space; the title has the whole name.
std::string shortened(const std::string& label) {
  std::size_t end = 0;
  for (int letters = 0; end < label.size() && letters < 13; ++letters) {
    ++end;
    while (end < label.size() && (static_cast<unsigned char>(label[end]) & 0xc0) == 0x80) ++end;
  }
  return end < label.size() ? label.substr(0, end) + "…" : label;
}

}  // namespace

std::string confusion_svg(const std::vector<std::string>& labels,
                          const std::vector<std::vector<std::int64_t>>& confusion) {
  const std::size_t n = confusion.size();
  if (n == 0 || n > kMostCells || labels.size() < n) return "";
  std::size_t longest = 1;
  for (std::size_t i = 0; i < n; ++i) longest = std::max(longest, std::min<std::size_t>(14, labels[i].size()));
  const double name = kLetter * static_cast<double>(longest), left_edge = std::max(60.0, name + 20),
               top_edge = 34 + 0.75 * name;
  const double size = kCell * static_cast<double>(n),
               width = left_edge + size + std::max(8.0, 0.75 * name - kCell / 2 + 8), height = top_edge + size + 8;
  std::string out;
  const auto to = std::back_inserter(out);
  fmt::format_to(to,
                 "<figure class=\"matrix\"><svg viewBox=\"0 0 {} {}\" style=\"max-width:{}px\" role=\"img\" "
                 "aria-label=\"Confusion matrix\">"
                 "<title>Confusion matrix: rows are the true class, columns the predicted one</title>\n",
                 width, height, width * 1.15);
  fmt::format_to(to,
                 "<text class=\"tick\" x=\"{}\" y=\"12\">predicted →</text><text class=\"tick end\" x=\"{}\" "
                 "y=\"{}\">truth ↓</text>\n",
                 left_edge, left_edge - 10, top_edge - 8);
  for (std::size_t i = 0; i < n; ++i) {
    const double at = kCell * (static_cast<double>(i) + 0.5);
    fmt::format_to(to, "<text class=\"cell-label end\" x=\"{}\" y=\"{:.1f}\">{}</text>", left_edge - 10,
                   top_edge + at + 4, escape(shortened(labels[i])));
    fmt::format_to(to, "<text class=\"cell-label\" transform=\"translate({:.1f} {}) rotate(-45)\">{}</text>\n",
                   left_edge + at - 2, top_edge - 10, escape(shortened(labels[i])));
  }
  for (std::size_t i = 0; i < n; ++i) {
    std::int64_t row = 0;
    for (const std::int64_t v : confusion[i]) row += v;
    for (std::size_t j = 0; j < n; ++j) {
      const double share = row ? static_cast<double>(confusion[i][j]) / static_cast<double>(row) : 0;
      const double left = left_edge + kCell * static_cast<double>(j), top = top_edge + kCell * static_cast<double>(i);
      // Even a small share is visible, since readers look for mistakes.
      const double strength = confusion[i][j] == 0 ? 0
                              : i == j             ? 0.12 + 0.88 * share
                                                   : std::min(1.0, 0.14 + 2.2 * share);
      fmt::format_to(to,
                     "<g><title>{} taken for {}: {} of {} ({})</title><rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" "
                     "width=\"{}\" height=\"{}\" rx=\"4\" "
                     "fill-opacity=\"{:.3f}\"/>",
                     escape(labels[i]), escape(labels[j]), confusion[i][j], row, percent(share, 1),
                     i == j ? "right" : "wrong", left + 1.5, top + 1.5, kCell - 3, kCell - 3, strength);
      fmt::format_to(to, "<text class=\"cell{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text></g>\n",
                     confusion[i][j] == 0 ? " zero"
                     : strength > 0.6     ? " strong"
                                          : "",
                     left + kCell / 2, top + kCell / 2 + 4, confusion[i][j]);
    }
  }
  return out + "</svg></figure>\n";
}

}  // namespace mlx::report
