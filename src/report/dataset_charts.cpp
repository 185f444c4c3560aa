// The histogram of a column, and the heat map of correlations.

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>

#include "base/text.h"
#include "report/dataset_page.h"
#include "report/html.h"

namespace mlx::report {
namespace {

constexpr double kBarsWidth = 180, kBarsHeight = 40, kSquare = 40;
constexpr std::size_t kMostSquares = 16, kLongestName = 16;

std::string cut_name(const std::string& name) {
  if (name.size() <= kLongestName) return name;
  std::size_t end = kLongestName - 1;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;
  return name.substr(0, end) + "…";
}

}  // namespace

std::string histogram_svg(const std::vector<std::uint64_t>& counts, const std::string& title) {
  if (counts.empty()) return "";
  const auto most = static_cast<double>(std::max<std::uint64_t>(1, *std::ranges::max_element(counts)));
  const double width = kBarsWidth / static_cast<double>(counts.size());
  std::string out =
      fmt::format("<svg class=\"bars\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\"><title>{}</title>",
                  kBarsWidth, kBarsHeight, escape(title), escape(title));
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const double height = std::max(1.0, static_cast<double>(counts[i]) / most * (kBarsHeight - 2));
    fmt::format_to(std::back_inserter(out), "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>",
                   static_cast<double>(i) * width + 0.5, kBarsHeight - 1 - height, width - 1, height);
  }
  return out + fmt::format("<line class=\"axis\" x1=\"0\" y1=\"{0}\" x2=\"{1}\" y2=\"{0}\"/></svg>", kBarsHeight - 0.5,
                           kBarsWidth);
}

std::string correlations_svg(const std::vector<data::Association>& pairs) {
  std::vector<std::string> names;  // of the strongest pairs first
  std::map<std::pair<std::string, std::string>, double> strengths;
  for (const data::Association& pair : pairs) {
    for (const std::string& name : {pair.a, pair.b})
      if (names.size() < kMostSquares && std::ranges::find(names, name) == names.end()) names.push_back(name);
    strengths[{pair.a, pair.b}] = strengths[{pair.b, pair.a}] = pair.strength;
  }
  if (names.size() < 2) return "";
  std::size_t longest = 1;
  for (const std::string& name : names) longest = std::max(longest, std::min(kLongestName, name.size()));
  const double text = 7.2 * static_cast<double>(longest), left = text + 16, top = 0.72 * text + 18;
  const double size = kSquare * static_cast<double>(names.size()), width = left + size + 0.72 * text + 8;
  std::string out;
  const auto to = std::back_inserter(out);
  fmt::format_to(
      to,
      "<figure class=\"matrix\"><svg viewBox=\"0 0 {:.0f} {:.0f}\" style=\"max-width:{:.0f}px\" role=\"img\" "
      "aria-label=\"Correlations\"><title>Pearson correlations between columns of numbers</title>\n",
      width, top + size + 6, width * 1.1);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double at = kSquare * (static_cast<double>(i) + 0.5);
    fmt::format_to(to, "<text class=\"end\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", left - 8, top + at + 4,
                   escape(cut_name(names[i])));
    fmt::format_to(to, "<text transform=\"translate({:.1f} {:.1f}) rotate(-45)\">{}</text>\n", left + at - 2, top - 8,
                   escape(cut_name(names[i])));
    for (std::size_t j = 0; j < names.size(); ++j) {
      const auto found = strengths.find({names[i], names[j]});
      const bool same = i == j, known = same || found != strengths.end();
      if (!known) continue;
      const double strength = same ? 1 : found->second;
      fmt::format_to(to,
                     "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" rx=\"4\" "
                     "fill-opacity=\"{:.2f}\"><title>{} and {}: {}</title></rect>",
                     strength < 0 ? "wrong" : "right", left + kSquare * static_cast<double>(j) + 1,
                     top + kSquare * static_cast<double>(i) + 1, kSquare - 2, kSquare - 2,
                     same ? 0.12 : 0.08 + 0.92 * std::abs(strength), escape(names[i]), escape(names[j]),
                     hundredths(strength));
      if (!same)
        fmt::format_to(to, "<text class=\"cell{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                       std::abs(strength) > 0.6 ? " strong" : "", left + kSquare * (static_cast<double>(j) + 0.5),
                       top + at + 4, hundredths(strength));
    }
  }
  return out + "</svg></figure>\n";
}

}  // namespace mlx::report
