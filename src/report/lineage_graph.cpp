// Lineage drawn from left to right: a column for each step away from the origins, runs between versions.
#include <algorithm>
#include <iterator>
#include <map>

#include "registry/versions/lineage.h"
#include "report/chart.h"
#include "report/html.h"

namespace mlx::report {
namespace {

using registry::NodeKind;

constexpr double kBox = 168, kBoxHeight = 54, kGapX = 44, kGapY = 18;
constexpr std::size_t kMostNodes = 60;

// The longest path to each node. A lineage has no cycles; for a damaged one the loop ends after as many rounds as
// nodes.
std::vector<int> columns(const registry::Lineage& lineage) {
  std::vector<int> column(lineage.nodes.size(), 0);
  for (std::size_t round = 0; round < lineage.nodes.size(); ++round)
    for (const auto& [from, to] : lineage.edges)
      column[static_cast<std::size_t>(to)] =
          std::min(static_cast<int>(lineage.nodes.size()),
                   std::max(column[static_cast<std::size_t>(to)], column[static_cast<std::size_t>(from)] + 1));
  return column;
}

std::string second_line(const registry::LineageNode& node, const std::vector<registry::Run>& runs) {
  if (node.kind != NodeKind::kRun)
    return std::string(node_kind_name(node.kind)) + " " + node.digest.brief().substr(0, 8);
  return "run:" + node.run.substr(0, 8);
}

std::string first_line(const registry::LineageNode& node, const std::vector<registry::Run>& runs) {
  const auto run = std::ranges::find_if(runs, [&](const registry::Run& r) { return r.id == node.run; });
  std::string text = node.kind == NodeKind::kRun && run != runs.end() ? run->command : node.label;
  return text.size() > 21 ? "…" + text.substr(text.size() - 20) : text;
}

// Evaluations are left out: they make no version, and many of them would hide what led to the model.
registry::Lineage without_leaves(const registry::Lineage& from) {
  std::vector<int> place(from.nodes.size(), -1);
  registry::Lineage out;
  for (std::size_t i = 0; i < from.nodes.size(); ++i) {
    const bool makes = std::ranges::any_of(from.edges, [&](const auto& e) { return e.first == static_cast<int>(i); });
    if (from.nodes[i].kind == NodeKind::kRun && !makes) continue;
    place[i] = static_cast<int>(out.nodes.size());
    out.nodes.push_back(from.nodes[i]);
  }
  for (const auto& [a, b] : from.edges)
    if (place[static_cast<std::size_t>(a)] >= 0 && place[static_cast<std::size_t>(b)] >= 0)
      out.edges.emplace_back(place[static_cast<std::size_t>(a)], place[static_cast<std::size_t>(b)]);
  return out;
}

}  // namespace

std::string lineage_svg(const registry::Lineage& all, const std::vector<registry::Run>& runs, const Digest& subject) {
  const registry::Lineage lineage = without_leaves(all);
  if (lineage.nodes.empty() || lineage.nodes.size() > kMostNodes) return "";
  const std::vector<int> column = columns(lineage);
  std::map<int, int> rows;
  std::vector<double> x(column.size()), y(column.size());
  for (std::size_t i = 0; i < column.size(); ++i) {
    x[i] = 4 + (kBox + kGapX) * column[i];
    y[i] = 4 + (kBoxHeight + kGapY) * rows[column[i]]++;
  }
  double width = 0, height = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    width = std::max(width, x[i] + kBox + 4);
    height = std::max(height, y[i] + kBoxHeight + 4);
  }
  std::string out;
  const auto to = std::back_inserter(out);
  fmt::format_to(to,
                 "<figure class=\"scroll\"><svg class=\"lineage\" viewBox=\"0 0 {0} {1}\" "
                 "style=\"max-width:{0}px;min-width:{2}px\" role=\"img\" "
                 "aria-label=\"Lineage\"><title>What was made from what, from left to right</title>\n",
                 width, height, width * 0.6);
  out +=
      "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" "
      "orient=\"auto\">"
      "<path class=\"arrow\" d=\"M0 0L8 4L0 8z\"/></marker></defs>\n";
  for (const auto& [a, b] : lineage.edges) {
    const auto from = static_cast<std::size_t>(a), into = static_cast<std::size_t>(b);
    const double x1 = x[from] + kBox, y1 = y[from] + kBoxHeight / 2, x2 = x[into] - 2, y2 = y[into] + kBoxHeight / 2;
    const double bend = std::max(20.0, (x2 - x1) / 2);
    fmt::format_to(to,
                   "<path class=\"edge\" marker-end=\"url(#arrow)\" d=\"M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} "
                   "{:.1f} {:.1f}\"/>\n",
                   x1, y1, x1 + bend, y1, x2 - bend, y2, x2, y2);
  }
  for (std::size_t i = 0; i < lineage.nodes.size(); ++i) {
    const registry::LineageNode& node = lineage.nodes[i];
    fmt::format_to(
        to,
        "<g class=\"node {}{}\"><title>{}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\" rx=\"{}\"/>"
        "<text class=\"name\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text><text class=\"tick middle\" x=\"{:.1f}\" "
        "y=\"{:.1f}\">{}</text></g>\n",
        node_kind_name(node.kind), node.kind != NodeKind::kRun && node.digest == subject ? " subject" : "",
        escape(node.label), x[i], y[i], kBox, kBoxHeight, node.kind == NodeKind::kRun ? 27 : 8, x[i] + kBox / 2,
        y[i] + 23, escape(first_line(node, runs)), x[i] + kBox / 2, y[i] + 41, escape(second_line(node, runs)));
  }
  return out + "</svg></figure>\n";
}

}  // namespace mlx::report
