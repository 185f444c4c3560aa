// The page's sections: what the splits hold, each split's columns, and what is between splits and versions.

#include "report/dataset_page.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/bytes.h"
#include "base/text.h"
#include "data/quality/personal.h"
#include "report/html.h"

namespace mlx::report {
namespace {

constexpr std::size_t kShownValues = 5, kShownPairs = 20, kShownOutliers = 5, kShownGroups = 12;

std::string missing_text(const data::ColumnStatistics& column) {
  if (column.missing == 0) return "–";
  return percent(static_cast<double>(column.missing) / static_cast<double>(std::max<std::uint64_t>(1, column.count)),
                 1);
}

// The most frequent values with their shares.
std::string values_of(const std::vector<data::ValueCount>& values, std::uint64_t whole, std::size_t most) {
  std::string out;
  for (std::size_t i = 0; i < std::min(most, values.size()); ++i) {
    const double share = static_cast<double>(values[i].count) / static_cast<double>(std::max<std::uint64_t>(1, whole));
    out += fmt::format("<div class=\"value-row\"><span>{}</span><span class=\"soft\">{}{}</span></div>",
                       escape(values[i].value), percent(share, 1), bar(share));
  }
  return out;
}

// A page is passed on: it shows no value of a column that may hold personal data.
bool may_be_personal(const data::ColumnStatistics& column) {
  return !column.personal.empty() || data::personal_column(column.name) != nullptr;
}

std::string distribution(const data::ColumnStatistics& column) {
  if (may_be_personal(column)) return "<span class=\"soft\">may hold personal data: not shown</span>";
  if (column.is_number()) return histogram_svg(column.histogram, "histogram of " + column.name);
  if (column.type == "date") return escape(column.earliest + " to " + column.latest);
  if (!column.top.empty() && column.top[0].count > 1)
    return values_of(column.top, column.count - column.missing, kShownValues);
  return fmt::format("<span class=\"soft\">{} to {} bytes</span>", column.shortest, column.longest);
}

std::string numbers_text(const data::ColumnStatistics& column) {
  if (!column.is_number() || may_be_personal(column)) return "";
  return fmt::format("{} … {}<br><span class=\"soft\">mean {} ± {}</span>", brief_number(column.low),
                     brief_number(column.high), brief_number(column.mean), brief_number(column.std));
}

std::string columns_table(const data::SplitStatistics& split) {
  Table table;
  table.columns = {{"Column"}, {"Type"}, {"Missing", true}, {"Different", true}, {"Distribution"}, {"Range"}};
  for (const data::ColumnStatistics& column : split.columns) {
    table.rows.push_back({escape(column.name), column.type.empty() ? "–" : escape(column.type), missing_text(column),
                          (column.distinct_exact ? "" : "~") + count(static_cast<double>(column.distinct)),
                          distribution(column), numbers_text(column)});
  }
  return to_html(table);
}

// The target within one value of a column, or a number within one class.
std::string group_text(const data::TargetGroup& group) {
  if (!group.classes.empty()) return values_of(group.classes, group.count, 3);
  return "mean " + brief_number(group.mean);
}

std::string target_part(const data::SplitStatistics& split) {
  if (split.target.empty() || split.with_target.empty()) return "";
  Table table;
  table.caption = "Correlation ratio and Cramer's V are from 0 to 1, correlation from -1 to 1.";
  table.columns = {{"Column"}, {"Measure"}, {"Strength", true}};
  for (const data::Association& each : split.with_target)
    table.rows.push_back({escape(each.a), escape(each.measure),
                          fmt::format("{}{}", hundredths(each.strength), bar(std::abs(each.strength)))});
  std::string out = fmt::format("<h3>Against the target {}</h3>\n", escape(split.target)) + to_html(table);
  std::string groups;
  for (const data::Association& each : split.with_target) {
    const data::ColumnStatistics* const column = split.column(each.a);
    if (!column || may_be_personal(*column)) continue;
    Table of_column;
    of_column.caption = escape(each.a);
    of_column.columns = {{"Value"}, {"Items", true}, {"In it"}};
    for (const data::TargetGroup& group : split.groups)
      if (group.column == each.a && of_column.rows.size() < kShownGroups)
        of_column.rows.push_back({escape(group.group), count(static_cast<double>(group.count)), group_text(group)});
    if (!of_column.rows.empty()) groups += "<div>" + to_html(of_column) + "</div>\n";
  }
  return groups.empty() ? out : out + "<div class=\"pair\">\n" + groups + "</div>\n";
}

std::string picture(const data::Thumbnail& of, const data::SplitStatistics& split) {
  const std::string place = split.place(of.number);
  return fmt::format(
      "<figure class=\"thumb\"><img alt=\"{}\" title=\"{}\" src=\"data:image/png;base64,{}\">"
      "<figcaption>{}</figcaption></figure>",
      escape(place), escape(place), to_base64(of.png), escape(of.label));
}

std::string pictures_part(const data::Pictures& pictures, const data::SplitStatistics& split) {
  std::string out;
  if (!pictures.samples.empty()) {
    out += "<h3>Some of each class</h3>\n<div class=\"thumbs\">";
    for (const data::Thumbnail& each : pictures.samples) out += picture(each, split);
    out += "</div>\n";
  }
  if (!pictures.alike.empty()) {
    out += "<h3>Almost the same</h3>\n<div class=\"thumbs\">";
    for (const auto& [first, again] : pictures.alike)
      out += "<div class=\"twins\">" + picture(first, split) + picture(again, split) + "</div>";
    out += "</div>\n";
  }
  return out;
}

std::string outliers_part(const data::SplitStatistics& split) {
  Table table;
  table.caption = "Values whose robust z-score, by median and median absolute deviation, is above 5.";
  table.columns = {{"Column"}, {"Values", true}, {"The farthest"}};
  for (const data::ColumnStatistics& column : split.columns) {
    if (column.outlier_examples.empty() || may_be_personal(column)) continue;
    std::string list;
    for (std::size_t i = 0; i < std::min(kShownOutliers, column.outlier_examples.size()); ++i) {
      const data::Outlier& each = column.outlier_examples[i];
      list += fmt::format("{}{} <span class=\"soft\">({})</span>", i == 0 ? "" : ", ", brief_number(each.value),
                          escape(split.place(each.number)));
    }
    table.rows.push_back({escape(column.name), count(static_cast<double>(column.outliers)), list});
  }
  return table.rows.empty() ? "" : "<h3>Outliers</h3>\n" + to_html(table);
}

std::string duplicates_part(const data::SplitStatistics& split) {
  std::string out;
  const auto add = [&](const char* title, const data::Duplicates& found) {
    if (found.items == 0) return;
    Table table;
    table.caption = fmt::format("{} {}.", count(static_cast<double>(found.items)), title);
    table.columns = {{"First"}, {"Again"}};
    for (std::size_t i = 0; i < std::min(kShownPairs, found.examples.size()); ++i)
      table.rows.push_back(
          {escape(split.place(found.examples[i].first)), escape(split.place(found.examples[i].second))});
    out += "<div>" + to_html(table) + "</div>\n";
  };
  add("equal an earlier one", split.equal), add("almost equal an earlier one", split.alike);
  return out.empty() ? "" : "<h3>Duplicates</h3>\n<div class=\"pair\">\n" + out + "</div>\n";
}

std::string split_section(const std::string& name, const data::SplitStatistics& split, const DatasetFacts& facts) {
  std::string out = fmt::format(
      "<p class=\"soft\">{} {} in {}, {}{}</p>\n", count(static_cast<double>(split.items)), escape(split.unit),
      split.files.size() == 1 ? escape(split.files[0]) : counted(split.files.size(), "file"), bytes(split.bytes),
      split.channels > 0 && !split.names_items()
          ? fmt::format(", {} × {} × {}", split.height, split.width, split.channels)
          : "");
  if (const auto found = facts.pictures.find(name); found != facts.pictures.end())
    out += pictures_part(found->second, split);
  out += "<h3>Columns</h3>\n" + columns_table(split);
  if (const std::string map = correlations_svg(split.correlations); !map.empty())
    out += "<h3>Correlations</h3>\n" + map;
  out += target_part(split) + outliers_part(split) + duplicates_part(split);
  return section("split-" + escape(name), escape(name), out);
}

std::string leaks_section(const data::Statistics& statistics) {
  if (statistics.leaks.empty()) return "";
  Table table;
  table.columns = {{"Split"}, {"Is also in"}, {"Equal", true}, {"Almost equal", true}, {"Such as"}};
  for (const data::Leak& leak : statistics.leaks) {
    const data::SplitStatistics &from = statistics.splits.at(leak.from), &to = statistics.splits.at(leak.to);
    const auto& examples = leak.examples.empty() ? leak.alike_examples : leak.examples;
    const std::string such =
        examples.empty() ? "" : fmt::format("{} as {}", to.place(examples[0].second), from.place(examples[0].first));
    table.rows.push_back({escape(leak.to), escape(leak.from),
                          fmt::format("<span class=\"bad\">{}</span> ({})", count(static_cast<double>(leak.equal)),
                                      percent(leak.equal_share)),
                          fmt::format("{} ({})", count(static_cast<double>(leak.alike)), percent(leak.alike_share)),
                          escape(such)});
  }
  return section("leaks", "Items in two splits", to_html(table));
}

std::string drift_section(const DatasetFacts& facts) {
  if (facts.before.empty()) return "";
  std::string out =
      "<p class=\"soft\">PSI, the population stability index, is little below 0.1 and much above 0.25.</p>\n";
  for (const data::SplitDrift& split : facts.drift) {
    Table table;
    table.caption =
        fmt::format("{}: {} → {} items", escape(split.split), count(static_cast<double>(split.items_before)),
                    count(static_cast<double>(split.items_after)));
    table.columns = {{"Column"}, {"PSI", true}, {"Mean", true}, {"Missing", true}, {"Values"}};
    for (const data::ColumnDrift& each : split.columns) {
      std::string values;
      const auto add = [&](const char* what, const std::vector<std::string>& list) {
        for (std::size_t i = 0; i < std::min(kShownValues, list.size()); ++i)
          values += fmt::format("{}{} {}", values.empty() ? "" : ", ", what, escape(list[i]));
      };
      const auto split_now = facts.statistics.splits.find(split.split);
      const data::ColumnStatistics* const now =
          split_now == facts.statistics.splits.end() ? nullptr : split_now->second.column(each.column);
      const bool personal = data::personal_column(each.column) != nullptr || (now && may_be_personal(*now));
      if (!personal) add("new", each.new_values), add("lost", each.lost_values);
      if (each.type_before != each.type_after)
        values = fmt::format("type {} → {}", escape(each.type_before), escape(each.type_after));
      const bool numbers = each.mean_before != 0 || each.mean_after != 0;
      table.rows.push_back({escape(each.column),
                            fmt::format("<span class=\"{}\">{:.3f}</span>", each.psi > 0.25 ? "bad" : "", each.psi),
                            numbers ? brief_number(each.mean_before) + " → " + brief_number(each.mean_after) : "–",
                            percent(each.missing_before, 1) + " → " + percent(each.missing_after, 1), values});
    }
    out += to_html(table);
  }
  return section("changes", "Changes since " + escape(facts.before), out);
}

// Training first, as people read.
std::vector<std::string> in_reading_order(const data::Statistics& statistics) {
  constexpr std::array<std::string_view, 3> kFirst = {"train", "valid", "test"};
  std::vector<std::string> names;
  names.reserve(statistics.splits.size());
  for (const auto& [name, split] : statistics.splits) names.push_back(name);
  std::ranges::stable_sort(names, {},
                           [&](const std::string& name) { return std::ranges::find(kFirst, name) - kFirst.begin(); });
  return names;
}

std::string split_tiles(const data::Statistics& statistics, const std::vector<std::string>& names) {
  std::string out = "<div class=\"tiles\">\n";
  for (const std::string& name : names) {
    const data::SplitStatistics& split = statistics.splits.at(name);
    out += tile(escape(name), count(static_cast<double>(split.items)),
                escape(fmt::format("{}, {}", split.unit, bytes(split.bytes))));
  }
  return out + "</div>\n";
}

}  // namespace

std::string dataset_page(const DatasetFacts& facts) {
  std::string out = page_head(facts.name + " · mlx describe");
  out += fmt::format("<h1>{}</h1>\n<p class=\"soft\"><code>{}</code></p>\n", escape(facts.name), escape(facts.digest));
  const std::vector<std::string> names = in_reading_order(facts.statistics);
  out += split_tiles(facts.statistics, names);
  out += drift_section(facts) + leaks_section(facts.statistics);
  for (const std::string& name : names) out += split_section(name, facts.statistics.splits.at(name), facts);
  return out + page_end();
}

}  // namespace mlx::report
