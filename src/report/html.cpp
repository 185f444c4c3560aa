// Escaping, numbers as people write them, and tables.
#include "report/html.h"

#include <algorithm>
#include <cmath>

#include "base/html.h"

namespace mlx::report {

std::string escape(std::string_view text) {
  return html_escaped(text);
}

std::string percent(double share, int digits) {
  return fmt::format("{:.{}f} %", 100 * share, digits);
}

std::string count(double value) {
  std::string digits = fmt::format("{:.0f}", std::abs(value));
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<std::size_t>(at), ",");
  return (value < 0 ? "-" : "") + digits;
}

std::string bytes(std::uint64_t value) {
  const char* const units[] = {"B", "kB", "MB", "GB", "TB"};
  double scaled = static_cast<double>(value);
  std::size_t unit = 0;
  while (scaled >= 1000 && unit + 1 < std::size(units)) {
    scaled /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", value)
                   : fmt::format("{:.{}f} {}", scaled,
                                 scaled < 10    ? 2
                                 : scaled < 100 ? 1
                                                : 0,
                                 units[unit]);
}

std::string to_html(const Table& table) {
  std::string out = "<div class=\"scroll\"><table>";
  if (!table.caption.empty()) out += "<caption>" + table.caption + "</caption>";
  out += "<thead><tr>";
  for (const Table::Column& column : table.columns)
    out += fmt::format("<th scope=\"col\"{}>{}</th>", column.number ? " class=\"n\"" : "", column.title);
  out += "</tr></thead><tbody>\n";
  for (const auto& row : table.rows) {
    out += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool number = i < table.columns.size() && table.columns[i].number;
      out += i == 0 ? fmt::format("<th scope=\"row\">{}</th>", row[i])
                    : fmt::format("<td{}>{}</td>", number ? " class=\"n\"" : "", row[i]);
    }
    out += "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string tile(const std::string& label, const std::string& value, const std::string& note) {
  return fmt::format(
      "<div class=\"tile\"><div class=\"label\">{}</div><div class=\"value\">{}</div><div "
      "class=\"note\">{}</div></div>\n",
      label, value, note);
}

std::string bar(double share) {
  return fmt::format("<span class=\"bar\"><i style=\"width:{:.1f}%\"></i></span>", 100 * std::clamp(share, 0.0, 1.0));
}

std::string section(std::string_view id, std::string_view title, std::string_view content) {
  return fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}</section>\n", id, title, content);
}

std::string page_head(const std::string& title) {
  return "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta name=\"color-scheme\" content=\"light dark\">\n<title>" +
         escape(title) + "</title>\n<style>" + kStyle + "</style>\n</head>\n<body>\n<main>\n";
}

std::string page_end() {
  return "</main>\n</body>\n</html>\n";
}

}  // namespace mlx::report
