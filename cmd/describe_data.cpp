// mlx describe: what is in a dataset, and what changed between two versions of it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/data_subject.h"
#include "data/quality/drift.h"
#include "data/quality/pictures.h"
#include "data/quality/rules.h"
#include "data/splits.h"
#include "report/dataset_page.h"

namespace mlx::cmd {
namespace {

struct DescribeOptions {
  std::string data, second, against, target, html;
  bool again = false;
};

bool shows_utf8(const Environment& environment) {
  for (const char* const name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::optional<std::string> value = environment.get(name);
    if (!value) continue;
    const std::string locale = lower(*value);
    return locale.find("utf-8") != locale.npos || locale.find("utf8") != locale.npos;
  }
  return false;
}

// One character for each count, by its share of the largest one.
std::string sparkline(const std::vector<std::uint64_t>& counts, bool utf8) {
  constexpr std::array<const char*, 9> kBlocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  constexpr std::array<const char*, 9> kAscii = {" ", ".", ".", ":", "-", "=", "+", "*", "#"};
  const std::uint64_t most = counts.empty() ? 0 : *std::ranges::max_element(counts);
  std::string out;
  for (const std::uint64_t count : counts) {
    const double part = most == 0 ? 0 : static_cast<double>(count) / static_cast<double>(most);
    const auto level = count == 0 ? 0 : std::max<std::size_t>(1, static_cast<std::size_t>(std::lround(part * 8)));
    out += utf8 ? kBlocks[level] : kAscii[level];
  }
  return out;
}

std::string percent_text(std::uint64_t part, std::uint64_t whole) {
  return part == 0 ? "-" : fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

// At most `most` bytes, and never part of a character.
std::string shortened(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  std::size_t end = most - 2;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "..";
}

std::string values_text(const data::ColumnStatistics& column, bool utf8) {
  if (column.is_number()) {
    if (column.numbers == 0) return "no number below 3.4e38";
    return fmt::format("{} [{}] {}  mean {} std {}", brief_number(column.low), sparkline(column.histogram, utf8),
                       brief_number(column.high), brief_number(column.mean), brief_number(column.std));
  }
  if (column.type == "date") return fmt::format("{} to {}", column.earliest, column.latest);
  std::string out;
  const bool repeated = !column.top.empty() && column.top[0].count > 1;
  for (std::size_t i = 0; repeated && i < column.top.size() && i < 4; ++i)
    out += fmt::format("{}{} {}", i == 0 ? "" : ", ", shortened(column.top[i].value, 24),
                       percent_text(column.top[i].count, column.count));
  return repeated ? out
                  : fmt::format("{} to {} bytes, mean {:.1f}", column.shortest, column.longest, column.mean_length);
}

void print_split(const std::string& name, const data::SplitStatistics& split, bool utf8, Context& context) {
  std::string head =
      fmt::format("{}: {} {} in {}, {}", name, grouped(split.items), split.unit,
                  split.names_items() ? "files" : printable(split.files.at(0)), format_bytes(split.bytes));
  if (split.channels > 0 && !split.names_items())
    head += fmt::format(", {}x{}x{}", split.height, split.width, split.channels);
  context.line(context.bold(head));
  if (!split.found_out.empty()) context.line("  " + split.found_out);
  if (!split.unread.empty())
    context.line(fmt::format("  {} cannot be read, the first: {}",
                             counted(split.unread_count, split.source_word.c_str()), printable(split.unread[0])));
  std::size_t width = 6;
  for (const data::ColumnStatistics& column : split.columns)
    width = std::max(width, std::min<std::size_t>(28, column.name.size()));
  context.line(
      context.dim(fmt::format("  {:<{}}  {:<6} {:>8} {:>10}  values", "column", width, "type", "missing", "distinct")));
  for (const data::ColumnStatistics& column : split.columns) {
    const std::string distinct = (column.distinct_exact ? "" : "~") + grouped(column.distinct);
    context.line(fmt::format("  {:<{}}  {:<6} {:>8} {:>10}  {}", shortened(column.name, 28), width,
                             column.type.empty() ? "-" : column.type, percent_text(column.missing, column.count),
                             distinct, values_text(column, utf8)));
  }
  for (const data::ColumnStatistics& column : split.columns) {
    if (column.outlier_examples.empty()) continue;
    std::string list;
    for (std::size_t i = 0; i < column.outlier_examples.size() && i < 5; ++i)
      list += fmt::format("{}{} {} ({})", i == 0 ? "" : ", ", split.place_word, column.outlier_examples[i].number,
                          brief_number(column.outlier_examples[i].value));
    context.line(fmt::format("  outliers of {}: {}: {}", column.name, grouped(column.outliers), list));
  }
  const auto associations = [&](const char* title, const std::vector<data::Association>& found, double least) {
    std::string list;
    std::size_t shown = 0;
    for (const data::Association& each : found) {
      if (std::abs(each.strength) < least || shown++ >= 5) continue;
      list += fmt::format("{}{}{} {}", list.empty() ? "" : ", ", each.a, each.b == split.target ? "" : " and " + each.b,
                          hundredths(each.strength));
    }
    if (!list.empty()) context.line(fmt::format("  {}: {}", title, list));
  };
  associations("correlated", split.correlations, 0.5);
  if (!split.target.empty())
    associations(fmt::format("with the target {}", split.target).c_str(), split.with_target, 0.0);
  const auto duplicates = [&](const char* what, const data::Duplicates& found) {
    if (found.items == 0) return;
    const auto& [first, again] = found.examples.at(0);
    context.line(fmt::format("  {} {} {}, such as {} {} and {}", grouped(found.items), what, split.unit,
                             split.place_word, first, again));
  };
  duplicates("duplicate", split.equal), duplicates("nearly duplicate", split.alike);
  context.line("");
}

void print_drift(const std::vector<data::SplitDrift>& drift, Context& context) {
  for (const data::SplitDrift& split : drift) {
    context.line(context.bold(
        fmt::format("{}: {} -> {} items", split.split, grouped(split.items_before), grouped(split.items_after))));
    for (const data::ColumnDrift& each : split.columns) {
      const bool changed = each.psi >= 0.001 || each.ks >= 0.02 || each.type_before != each.type_after ||
                           !each.new_values.empty() || !each.lost_values.empty() ||
                           each.missing_before != each.missing_after;
      if (!changed) continue;
      std::string text = fmt::format("  {}: PSI {:.3f}", each.column, each.psi);
      if (each.ks > 0)
        text += fmt::format(", KS {:.2f}, mean {} -> {}", each.ks, brief_number(each.mean_before),
                            brief_number(each.mean_after));
      if (each.type_before != each.type_after)
        text += fmt::format(", type {} -> {}", each.type_before, each.type_after);
      if (each.missing_before != each.missing_after)
        text += fmt::format(", missing {:.1f} % -> {:.1f} %", 100 * each.missing_before, 100 * each.missing_after);
      for (const std::string& value : each.new_values) text += fmt::format(", new '{}'", shortened(value, 30));
      for (const std::string& value : each.lost_values) text += fmt::format(", lost '{}'", shortened(value, 30));
      context.line(each.psi > 0.25 ? context.red(text) : text);
    }
  }
}

// `--target`, else that of dataset.toml.
std::string target_of(const DescribeOptions& options, const DataSubject& subject) {
  return options.target.empty() ? data::rules_of(*subject.store, subject.manifest).target : options.target;
}

// Also compares with the version before, if the caller has not named another.
void write_page(const DescribeOptions& options, const DataSubject& subject, report::DatasetFacts facts,
                Context& context) {
  const std::string path = join_path(context.folder(), options.html);
  if (is_folder(path))
    throw Error(ErrorKind::kUsage, "--html " + options.html + ": is a folder", "name a file, such as data.html");
  if (facts.before.empty()) {
    if (const std::optional<DataSubject> before = version_before(subject, context)) {
      const data::Statistics earlier = statistics_of(*before, target_of(options, *before), options.again, context);
      facts.drift = data::drift_between(earlier, facts.statistics);
      facts.before = before->name;
    }
  }
  for (const auto& [name, split] : facts.statistics.splits) {
    const data::StoredSplit stored = data::stored_split(*subject.store, subject.manifest, name);
    facts.pictures[name] = data::pictures_of(stored, split, context.progress());
  }
  const std::string page = report::dataset_page(facts);
  write_file_atomically(path, page);
  if (context.wants_json())
    context.json({{"schema", "mlx.describe/1"},
                  {"data", subject.name},
                  {"digest", subject.manifest.text()},
                  {"path", path},
                  {"bytes", page.size()}});
  context.line(fmt::format("description of {}: {}  {}", context.bold(subject.name), options.html,
                           context.dim(format_bytes(page.size()))));
}

int run_describe(const DescribeOptions& options, Context& context) {
  if (!options.second.empty() && !options.against.empty())
    throw Error(ErrorKind::kUsage, "--against: there are two datasets already", "name one of them");
  // `describe A@v1 A@v2` reads like diff: from the first to the second.
  const bool two = !options.second.empty();
  const DataSubject subject = find_data(two ? options.second : options.data, context);
  const std::string target = target_of(options, subject);
  const data::Statistics statistics = statistics_of(subject, target, options.again, context);
  std::vector<data::SplitDrift> drift;
  std::string before_name;
  if (two || !options.against.empty()) {
    const DataSubject before = find_data(two ? options.data : options.against, context);
    drift = data::drift_between(statistics_of(before, target_of(options, before), options.again, context), statistics);
    before_name = before.name;
  }
  if (!options.html.empty()) {
    write_page(options, subject, {subject.name, subject.manifest.text(), statistics, {}, before_name, drift}, context);
    return 0;
  }
  if (context.wants_json()) {
    Json json = {{"schema", "mlx.describe/1"}, {"data", subject.name}, {"digest", subject.manifest.text()}};
    json.update(to_json(statistics));
    if (!before_name.empty()) json["against"] = before_name, json["drift"] = to_json(drift);
    context.json(json);
    return 0;
  }
  const bool utf8 = shows_utf8(context.environment());
  if (before_name.empty()) {
    for (const auto& [name, split] : statistics.splits) print_split(name, split, utf8, context);
    for (const data::Leak& leak : statistics.leaks) {
      if (leak.equal > 0)
        context.line(context.red(fmt::format("{} of {} are in {} too ({:.2f} %)", grouped(leak.equal), leak.to,
                                             leak.from, 100 * leak.equal_share)));
      if (leak.alike > 0)
        context.line(context.yellow(fmt::format("{} of {} are almost like some in {} ({:.2f} %)", grouped(leak.alike),
                                                leak.to, leak.from, 100 * leak.alike_share)));
    }
  } else {
    context.line(fmt::format("from {} to {}", before_name, subject.name));
    print_drift(drift, context);
  }
  return 0;
}

}  // namespace

Command add_describe() {
  auto options = std::make_shared<DescribeOptions>();
  Command command;
  command.name = "describe";
  command.summary = "Describe what is in a dataset, or what changed between two versions";
  command.group = "data";
  command.options = {
      argument("DATA", options->data, "A dataset, or a file or folder (a path that begins with . or / always is one)",
               Complete::kReference),
      optional_argument("NEWER", options->second, "Compare DATA with this one", Complete::kReference),
      option("--against", "DATA", options->against, "Show what changed since this one", Complete::kReference),
      option("--target", "COLUMN", options->target, "Compare every column with this one (default: [check] target)"),
      option("--html", "FILE", options->html, "Write one self-contained HTML page instead", Complete::kFile),
      flag("--again", options->again, "Measure again, even if the version has statistics")};
  command.examples = {"mlx describe data/houses --target price", "mlx describe data/houses@v1 data/houses@v2",
                      "mlx describe ./new.csv --json", "mlx describe data/photos --html photos.html"};
  command.run = [options](Context& context) { return run_describe(*options, context); };
  return command;
}

}  // namespace mlx::cmd
