// Tiles, a row for each column, and the windows.
#include "report/drift_page.h"

#include <algorithm>

#include "base/text.h"
#include "data/quality/personal.h"
#include "report/dataset_page.h"
#include "report/html.h"

namespace mlx::report {
namespace {

constexpr std::size_t kShownCells = 6;

std::string share_text(std::uint64_t part, std::uint64_t whole) {
  return percent(whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole), 1);
}

std::uint64_t total(const std::vector<std::uint64_t>& counts) {
  std::uint64_t all = 0;
  for (const std::uint64_t count : counts) all += count;
  return all;
}

// Of numbers where the reference has a tenth in each bar; of categories the frequent ones, before and now.
std::string cells_of(const monitor::ColumnDrift& column) {
  if (data::personal_column(column.column.name)) return "<span class=\"soft\">may hold personal data: not shown</span>";
  if (column.column.number)
    return histogram_svg(column.after, "share of " + column.column.name + " in each tenth of the reference");
  const std::uint64_t before = total(column.before), after = total(column.after);
  std::string out;
  const auto line = [&](const std::string& name, std::size_t cell) {
    out += fmt::format("<div class=\"value-row\"><span>{}</span><span class=\"soft\">{} → {}</span></div>",
                       escape(name), share_text(column.before[cell], before), share_text(column.after[cell], after));
  };
  for (std::size_t i = 0; i < std::min(kShownCells, column.values.size()); ++i) line(column.values[i], i);
  if (!column.after.empty() && column.after.back() > 0) line("others", column.after.size() - 1);
  return out;
}

std::string verdict_of(const monitor::ColumnDrift& column) {
  if (!column.judged) return "<span class=\"soft\">too few</span>";
  return column.drift ? "<span class=\"bad\">drift</span>" : "<span class=\"good\">–</span>";
}

std::string columns_section(const DriftFacts& facts) {
  Table table;
  table.columns = {{"Column"},  {"Verdict"},       {"PSI", true}, {"Test"},
                   {"q", true}, {"Missing", true}, {"Median"},    {"Now"}};
  std::vector<monitor::ColumnDrift> columns = facts.drift.columns;
  std::ranges::stable_sort(
      columns, [](const auto& a, const auto& b) { return std::pair(!a.drift, -a.psi) < std::pair(!b.drift, -b.psi); });
  for (const monitor::ColumnDrift& each : columns) {
    const std::string kind = each.column.prediction ? "<br><span class=\"soft\">of the model</span>" : "";
    const bool number = each.column.number && !data::personal_column(each.column.name);
    table.rows.push_back(
        {escape(each.column.name) + kind, verdict_of(each), fmt::format("{:.3f}", each.psi),
         fmt::format("{} {:.3f}", each.column.number ? "KS" : "χ²", each.statistic), fmt::format("{:.2g}", each.q),
         percent(each.missing_before, 1) + " → " + percent(each.missing_after, 1),
         number ? brief_number(each.median_before) + " → " + brief_number(each.median_after) : "–", cells_of(each)});
  }
  return section(
      "columns", "Columns",
      "<p class=\"soft\">Bars: how many numbers are in each tenth of the reference now, with those below and "
      "above all of it at the ends. Without drift they are about level.</p>" +
          to_html(table));
}

std::string windows_section(const DriftFacts& facts) {
  if (facts.windows.empty()) return "";
  const auto list = [](const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) out += (out.empty() ? "" : ", ") + escape(name);
    return out.empty() ? std::string("–") : out;
  };
  Table table;
  table.columns = {{"From item"}, {"Items", true}, {"Differ"}, {"Drift begins to be certain"}};
  for (const monitor::Stream::Judged& each : facts.windows)
    table.rows.push_back({count(static_cast<double>(each.first)), count(static_cast<double>(each.items)),
                          list(each.differ), list(each.established)});
  return section("windows", "Windows", to_html(table));
}

}  // namespace

std::string drift_page(const DriftFacts& facts) {
  std::string out = page_head(facts.model + " · mlx monitor");
  out += fmt::format("<h1>{}</h1>\n<p class=\"soft\"><code>{}</code></p>\n", escape(facts.model), escape(facts.digest));
  const auto drifting = std::ranges::count_if(facts.drift.columns, &monitor::ColumnDrift::drift);
  out += "<div class=\"tiles\">\n";
  out += tile("verdict", facts.found ? "<span class=\"bad\">drift</span>" : "<span class=\"good\">no drift</span>",
              fmt::format("{} of {} columns over all items", drifting, facts.drift.columns.size()));
  out += tile("items", count(static_cast<double>(facts.drift.items)), escape(facts.data));
  out += tile("compared with", escape(facts.predictions.empty() ? "data" : "data, answers"),
              escape(facts.reference + (facts.predictions.empty() ? "" : ", answers on " + facts.predictions)));
  out += "</div>\n" + columns_section(facts) + windows_section(facts);
  return out + page_end();
}

}  // namespace mlx::report
