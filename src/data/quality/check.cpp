// Rules over whole splits and versions, and what a check says.

#include "data/quality/check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iterator>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "data/quality/drift.h"
#include "data/quality/item_rules.h"
#include "data/quality/personal.h"

namespace mlx::data {
namespace {

constexpr std::size_t kNamed = 20;  // photos and documents that cannot be read

std::string percent_of(double share) {
  return fmt::format("{:.4g} %", share * 100);
}

double part_of(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// Days since 1970 of "2026-01-31…"; nullopt if it is no date of the calendar.
std::optional<std::int64_t> days_of(const std::string& date) {
  int year = 0;
  unsigned month = 0, day = 0;
  if (date.size() < 10) return {};
  std::from_chars(date.data(), date.data() + 4, year);
  std::from_chars(date.data() + 5, date.data() + 7, month);
  std::from_chars(date.data() + 8, date.data() + 10, day);
  const std::chrono::year_month_day when{std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)};
  if (!when.ok()) return {};
  return std::chrono::sys_days(when).time_since_epoch().count();
}

class SplitRules {
 public:
  SplitRules(const Rules& rules, std::string name, const SplitStatistics& split, std::vector<Failure>& to)
      : rules_(rules), name_(std::move(name)), split_(split), to_(to) {}

  void check(std::int64_t today) {
    check_unread();
    check_rows();
    check_columns();
    check_duplicates("duplicates", rules_.duplicates, split_.equal, "the same as one before");
    check_duplicates("near_duplicates", rules_.near_duplicates, split_.alike, "almost the same as one before");
    check_balance();
    if (!rules_.fresh_column.empty()) check_fresh(today);
  }

 private:
  Failure& add(const std::string& rule, const std::string& text) {
    Failure failure;
    failure.rule = rule, failure.split = name_, failure.file = split_.names_items() ? "" : split_.files.at(0),
    failure.text = text;
    failure.place_word = split_.place_word;
    return to_.emplace_back(std::move(failure));
  }
  // No rule need ask for it: a training would stop at them.
  void check_unread() {
    const std::uint64_t count = split_.unread_count;
    if (count == 0) return;
    const std::string words = split_.source_word + "s",
                      all = split_.channels > 0
                                ? fmt::format("{} of {} {}", grouped(count), grouped(split_.items + count), words)
                                : counted(count, split_.source_word.c_str());
    Failure& failure = add(words, all + " cannot be read");
    failure.count = count, failure.place_word = split_.source_word;
    for (std::size_t i = 0; i < std::min(split_.unread.size(), kNamed); ++i)
      failure.found.push_back({i + 1, printable(split_.unread[i])});
  }
  // A training would stop at a split without any, unless a rule allows it.
  void check_rows() {
    if (!rules_.rows) {
      if (split_.items == 0 && split_.unread_count == 0) add("rows", fmt::format("it has no {}", split_.unit));
      return;
    }
    const auto items = static_cast<std::int64_t>(split_.items);
    if (items < rules_.rows->first || items > rules_.rows->second)
      add("rows", fmt::format("{} {}, expected {} to {}", items, split_.unit, rules_.rows->first, rules_.rows->second));
  }
  void check_columns() {
    std::unordered_map<std::string_view, const ColumnStatistics*> columns;
    for (const ColumnStatistics& column : split_.columns) columns.emplace(column.name, &column);
    std::unordered_set<std::string_view> with_rule;
    for (const ColumnRules& rule : rules_.columns) {
      with_rule.insert(rule.name);
      const auto found = columns.find(rule.name);
      const ColumnStatistics* const column = found == columns.end() ? nullptr : found->second;
      if (!column) {
        add("columns." + rule.name, "the column is not there");
        continue;
      }
      const double missing = part_of(column->missing, column->count);
      if (rule.missing && missing > *rule.missing) {
        add(fmt::format("columns.{}.missing", rule.name),
            fmt::format("{} of {} values are missing ({}), at most {} may be", grouped(column->missing),
                        grouped(column->count), percent_of(missing), percent_of(*rule.missing)));
      }
    }
    for (const Comparison& compare : rules_.compare)
      for (const std::string& side : {compare.left, compare.right})
        if (!split_.column(side)) add("compare: " + compare.text, fmt::format("there is no column '{}'", side));
    if (!rules_.only_these) return;
    for (const ColumnStatistics& column : split_.columns)
      if (!with_rule.contains(column.name))
        add("only_these_columns", fmt::format("column '{}' has no rule", column.name));
  }
  void check_duplicates(const char* rule, const std::optional<double>& most, const Duplicates& found,
                        const char* what) {
    const double share = part_of(found.items, split_.items);
    if (!most || share <= *most) return;
    Failure& failure =
        add(rule, fmt::format("{} of {} {} are {} ({}), at most {} may be", grouped(found.items), grouped(split_.items),
                              split_.unit, what, percent_of(share), percent_of(*most)));
    failure.count = found.items;
    for (const auto& [first, again] : found.examples)
      failure.found.push_back({again, split_.names_items()
                                          ? fmt::format("{} as {}", split_.place(again), split_.place(first))
                                          : "as " + split_.place(first)});
  }
  void check_balance() {
    if (!rules_.balance) return;
    const std::string target = rules_.target.empty() && split_.channels > 0 ? "class" : rules_.target;
    const ColumnStatistics* const column = split_.column(target);
    if (!column || column->top.empty() || !column->top_exact) {
      add("balance", target.empty() ? "needs [check] target, a column of classes"
                                    : fmt::format("column '{}' holds no classes", target));
      return;
    }
    const ValueCount& rarest = column->rarest;
    const double share = part_of(rarest.count, column->count - column->missing);
    if (share < *rules_.balance)
      add("balance",
          fmt::format("class '{}' has {} of {} {} ({}), at least {} expected", rarest.value, grouped(rarest.count),
                      grouped(split_.items), split_.unit, percent_of(share), percent_of(*rules_.balance)));
  }
  void check_fresh(std::int64_t today) {
    const ColumnStatistics* const column = split_.column(rules_.fresh_column);
    const std::optional<std::int64_t> last = column ? days_of(column->latest) : std::nullopt;
    if (!last) {
      add("fresh", fmt::format("column '{}' holds no dates (YYYY-MM-DD)", rules_.fresh_column));
    } else if (today - *last > rules_.fresh_days) {
      add("fresh", fmt::format("the latest '{}' is {}, {} days ago; at most {} expected", rules_.fresh_column,
                               column->latest.substr(0, 10), today - *last, rules_.fresh_days));
    }
  }

  const Rules& rules_;
  std::string name_;
  const SplitStatistics& split_;
  std::vector<Failure>& to_;
};

// "as line 3 of train.csv", "test/cat/2.jpg as train/cat/1.jpg".
std::string copy_of(const SplitStatistics& split, std::uint64_t again, const SplitStatistics& from,
                    std::uint64_t first) {
  const std::string original =
      from.names_items() ? from.place(first) : fmt::format("{} of {}", from.place(first), from.files.at(0));
  return split.names_items() ? fmt::format("{} as {}", split.place(again), original) : "as " + original;
}

void check_leaks(const Rules& rules, const Statistics& statistics, std::vector<Failure>& to) {
  for (const Leak& leak : statistics.leaks) {
    const SplitStatistics& split = statistics.splits.at(leak.to);
    const auto add = [&](const char* rule, double share, double most, std::uint64_t count, const char* what,
                         const auto& examples) {
      Failure failure;
      failure.rule = rule, failure.split = leak.to, failure.file = split.names_items() ? "" : split.files.at(0),
      failure.place_word = split.place_word;
      failure.text =
          fmt::format("{} of {} {} {} in split '{}' too ({}), at most {} may be", grouped(count), grouped(split.items),
                      split.unit, what, leak.from, percent_of(share), percent_of(most));
      failure.count = count;
      for (const auto& [first, again] : examples)
        failure.found.push_back({again, copy_of(split, again, statistics.splits.at(leak.from), first)});
      to.push_back(std::move(failure));
    };
    if (rules.leaks && leak.equal_share > *rules.leaks)
      add("leaks", leak.equal_share, *rules.leaks, leak.equal, "are", leak.examples);
    if (rules.near_leaks && leak.alike_share > *rules.near_leaks)
      add("near_leaks", leak.alike_share, *rules.near_leaks, leak.alike, "are almost", leak.alike_examples);
  }
}

void check_drift(const Rules& rules, const Statistics& before, const Statistics& now, std::vector<Failure>& to) {
  for (const SplitDrift& split : drift_between(before, now)) {
    for (const ColumnDrift& column : split.columns) {
      if (column.psi <= *rules.drift) continue;
      const auto found = now.splits.find(split.split);
      Failure failure;
      failure.rule = "drift", failure.split = split.split;
      failure.file = found == now.splits.end() ? "" : found->second.files.at(0);
      failure.text = fmt::format("column '{}' differs from the last version by PSI {:.3f}, at most {} expected",
                                 column.column, column.psi, *rules.drift);
      if (!column.new_values.empty()) failure.text += fmt::format("; new: '{}'", column.new_values[0]);
      to.push_back(std::move(failure));
    }
  }
}

std::vector<PersonalFinding> find_personal(const Rules& rules, const Statistics& statistics) {
  std::vector<PersonalFinding> out;
  for (const auto& [name, split] : statistics.splits) {
    for (const ColumnStatistics& column : split.columns) {
      const bool declared = std::ranges::find(rules.personal, column.name) != rules.personal.end();
      if (declared || column.count == column.missing) continue;
      for (const auto& [kind, values] : column.personal) out.push_back({name, column.name, kind, values});
      const char* const by_name = personal_column(column.name);
      if (by_name && column.personal.empty() && split.channels == 0) out.push_back({name, column.name, by_name, 0});
    }
  }
  return out;
}

// Classes of the other splits that the training split does not have: a training or an evaluation would stop at them.
void check_classes(const Statistics& statistics, std::vector<Failure>& to) {
  constexpr std::size_t kShown = 5;
  const auto train = statistics.splits.find("train");
  if (train == statistics.splits.end() || train->second.classes.empty()) return;
  for (const auto& [name, split] : statistics.splits) {
    std::vector<std::string> unknown;
    std::ranges::set_difference(split.classes, train->second.classes, std::back_inserter(unknown));
    if (unknown.empty()) continue;
    const std::size_t more = unknown.size() - std::min(unknown.size(), kShown);
    unknown.resize(unknown.size() - more);
    Failure failure;
    failure.rule = "classes", failure.split = name, failure.file = split.names_items() ? "" : split.files.at(0);
    failure.text =
        fmt::format("split '{}' has {} '{}'{}, which split 'train' has not: no model can learn {}", name,
                    unknown.size() == 1 ? "the class" : "the classes", fmt::join(unknown, "', '"),
                    more == 0 ? "" : fmt::format(" and {} more", grouped(more)), unknown.size() == 1 ? "it" : "them");
    to.push_back(std::move(failure));
  }
}

// Every rule by its name, in the order of dataset.toml's sections.
std::vector<std::string> names_of(const Rules& rules, bool drift) {
  std::vector<std::string> out;
  const auto add = [&](bool there, const std::string& name) {
    if (there) out.push_back(name);
  };
  add(rules.rows.has_value(), "rows"), add(rules.duplicates.has_value(), "duplicates");
  add(rules.near_duplicates.has_value(), "near_duplicates"), add(rules.leaks.has_value(), "leaks");
  add(rules.near_leaks.has_value(), "near_leaks"), add(rules.balance.has_value(), "balance");
  add(!rules.fresh_column.empty(), "fresh"), add(drift, "drift"), add(rules.refuse_personal, "personal");
  add(rules.only_these, "only_these_columns");
  for (const Comparison& compare : rules.compare) out.push_back("compare: " + compare.text);
  for (const ColumnRules& column : rules.columns) {
    const std::string name = "columns." + column.name;
    out.push_back(name);
    add(!column.type.empty(), name + ".type"), add(column.low || column.high, name + ".range");
    add(!column.allowed.empty(), name + ".allowed"), add(column.pattern.has_value(), name + ".pattern");
    add(column.longest.has_value(), name + ".length"), add(column.unique, name + ".unique");
    add(column.missing.has_value(), name + ".missing");
  }
  return out;
}

// A rule that need not be declared counts where it found something.
void add_undeclared(CheckResult& to) {
  for (const Failure& each : to.failures)
    if (std::ranges::find(to.rules, each.rule) == to.rules.end()) to.rules.insert(to.rules.begin(), each.rule);
}

}  // namespace

CheckResult check_dataset(const store::Store& store, const Digest& manifest, const std::string& only,
                          const Rules& rules, const Statistics* before, std::int64_t today, Progress& progress) {
  CheckResult out;
  std::map<std::string, ItemRules> items;
  const Watch watch = [&](const std::string& split, const Observation& item) {
    items.try_emplace(split, rules, progress.interruption()).first->second.see(item);
  };
  out.statistics = measure_statistics(store, manifest, only, rules.target, watch, progress);
  const bool drift = rules.drift && before;
  out.rules = names_of(rules, drift);
  for (const auto& [name, split] : out.statistics.splits) {
    SplitRules(rules, name, split, out.failures).check(today);
    if (const auto seen = items.find(name); seen != items.end())
      seen->second.finish(scanned_split(store, manifest, name), name, out.failures);
  }
  check_classes(out.statistics, out.failures);
  check_leaks(rules, out.statistics, out.failures);
  if (drift) check_drift(rules, *before, out.statistics, out.failures);
  out.personal = find_personal(rules, out.statistics);
  if (rules.refuse_personal) {
    for (const PersonalFinding& each : out.personal) {
      Failure failure;
      failure.rule = "personal", failure.split = each.split,
      failure.file = out.statistics.splits.at(each.split).files.at(0);
      failure.count = each.values;
      failure.text = each.values == 0
                         ? fmt::format("column '{}' is named like personal data ({})", each.column, each.kind)
                         : fmt::format("column '{}': {} look like personal data ({})", each.column,
                                       counted(each.values, "value"), each.kind);
      out.failures.push_back(std::move(failure));
    }
  }
  add_undeclared(out);
  return out;
}

Json to_json(const CheckResult& result) {
  Json failures = Json::array(), personal = Json::array();
  for (const Failure& each : result.failures) {
    Json found = Json::array();
    for (const FoundAt& one : each.found) found.push_back({{each.place_word, one.number}, {"value", one.value}});
    failures.push_back({{"rule", each.rule},
                        {"split", each.split},
                        {"file", each.file},
                        {"message", each.text},
                        {"count", each.count},
                        {"found", found}});
  }
  for (const PersonalFinding& each : result.personal)
    personal.push_back({{"split", each.split}, {"column", each.column}, {"kind", each.kind}, {"values", each.values}});
  return {{"passed", result.failures.empty()}, {"rules", result.rules}, {"failures", failures}, {"personal", personal}};
}

std::string junit(const CheckResult& result, const std::string& dataset) {
  const auto escaped = [](const std::string& text) {
    std::string out;
    for (const char c : printable(text))
      c == '&'   ? out += "&amp;"
      : c == '<' ? out += "&lt;"
      : c == '>' ? out += "&gt;"
      : c == '"' ? out += "&quot;"
                 : out += c;
    return out;
  };
  std::map<std::string, std::vector<const Failure*>> by_rule;
  for (const Failure& each : result.failures) by_rule[each.rule].push_back(&each);
  std::string out = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n<testsuite name=\"mlx check {}\" tests=\"{}\" "
      "failures=\"{}\">\n",
      escaped(dataset), result.rules.size(), by_rule.size());
  for (const std::string& rule : result.rules) {
    out += fmt::format("<testcase classname=\"{}\" name=\"{}\">", escaped(dataset), escaped(rule));
    // A test case has one failure at most: that of all splits.
    std::string message, found;
    for (const Failure* each : by_rule[rule]) {
      message +=
          fmt::format("{}{}{}{}", message.empty() ? "" : "; ", each->file, each->file.empty() ? "" : ": ", each->text);
      for (const FoundAt& one : each->found)
        found += fmt::format("{}:{}: {}\n", escaped(each->file), one.number, escaped(one.value));
    }
    if (!message.empty()) out += fmt::format("\n<failure message=\"{}\">{}</failure>\n", escaped(message), found);
    out += "</testcase>\n";
  }
  return out + "</testsuite>\n</testsuites>\n";
}

}  // namespace mlx::data
