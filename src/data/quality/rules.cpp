// Reads rules, and makes some from data.

#include "data/quality/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "base/toml.h"
#include "base/toml_edit.h"
#include "data/quality/personal.h"

namespace mlx::data {
namespace {

constexpr const char* kFile = "dataset.toml";
constexpr std::uint64_t kLongest = 16 << 20;
constexpr double kHuge = 1e300;
constexpr std::int64_t kMostRows = std::int64_t{1} << 53;

// "5%" as 0.05.
std::optional<double> share(TomlReader& table, const char* key) {
  if (!table.has(key)) return {};
  const std::string text = table.string(key);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool good =
      error == std::errc() && trimmed({end, text.data() + text.size()}) == "%" && value >= 0 && value <= 100;
  if (!good) table.fail_at(key, "expected a share such as \"5%\"");
  return value / 100;
}

template <typename T>
void check_ends(const TomlReader& table, const char* key, const std::vector<T>& ends) {
  if (ends.size() != 2 || ends[0] > ends[1]) table.fail_at(key, "expected [least, most]");
}

ColumnRules column_rules(TomlReader table, const std::string& name) {
  ColumnRules rules;
  rules.name = name;
  rules.type = table.one_of("type", {"int", "float", "bool", "text", "date"}, "");
  if (table.has("range")) {
    const std::vector<double> ends = table.numbers("range", -kHuge, kHuge);
    check_ends(table, "range", ends);
    rules.low = ends[0], rules.high = ends[1];
  }
  if (table.has("min")) rules.low = table.number("min", -kHuge, kHuge);
  if (table.has("max")) rules.high = table.number("max", -kHuge, kHuge);
  if (rules.low && rules.high && *rules.low > *rules.high)
    table.fail_at(table.has("min") ? "min" : "max", "the smallest value is above the largest one");
  if (table.has("allowed")) {
    rules.allowed = table.strings("allowed");
    if (rules.allowed.empty()) table.fail_at("allowed", "expected at least one value");
    std::ranges::sort(rules.allowed);
  }
  if (table.has("pattern")) {
    rules.pattern_text = table.string("pattern");
    try {
      rules.pattern.emplace(rules.pattern_text);
    } catch (const Error& error) {
      table.fail_at("pattern", error.message);
    }
  }
  rules.unique = table.boolean("unique", false);
  rules.missing = share(table, "missing");
  if (table.has("length")) {
    const std::vector<std::int64_t> ends = table.integers("length", 0, kMostRows);
    check_ends(table, "length", ends);
    rules.shortest = ends[0], rules.longest = ends[1];
  }
  table.finish();
  return rules;
}

Comparison comparison(const TomlReader& table, const std::string& text) {
  for (const char* const op : {"<=", ">=", "==", "!=", "<", ">"}) {
    const std::size_t at = text.find(fmt::format(" {} ", op));
    if (at == text.npos) continue;
    Comparison out{text, std::string(trimmed(text.substr(0, at))), op,
                   std::string(trimmed(text.substr(at + std::string_view(op).size() + 2)))};
    if (!out.left.empty() && !out.right.empty()) return out;
  }
  table.fail_at("compare", fmt::format("expected two columns such as \"start <= end\", got \"{}\"", text));
}

Rules read_rules(TomlReader check) {
  Rules rules;
  rules.target = check.string("target", "");
  if (check.has("rows")) {
    const std::vector<std::int64_t> ends = check.integers("rows", 0, kMostRows);
    check_ends(check, "rows", ends);
    rules.rows = {ends[0], ends[1]};
  }
  rules.leaks = share(check, "leaks"), rules.near_leaks = share(check, "near_leaks");
  rules.duplicates = share(check, "duplicates"), rules.near_duplicates = share(check, "near_duplicates");
  rules.balance = share(check, "balance");
  if (check.has("drift")) rules.drift = check.number("drift", 0, 100);
  rules.refuse_personal = check.one_of("personal", {"report", "refuse"}, "report") == "refuse";
  rules.only_these = check.boolean("only_these_columns", false);
  if (check.has("fresh")) {
    TomlReader fresh = check.table("fresh", true);
    rules.fresh_column = fresh.string("column");
    rules.fresh_days = fresh.integer("days", 0, 100000);
    fresh.finish();
  }
  if (check.has("compare"))
    for (const std::string& text : check.strings("compare")) rules.compare.push_back(comparison(check, text));
  TomlReader columns = check.table("columns");
  for (const std::string& name : columns.keys()) rules.columns.push_back(column_rules(columns.table(name, true), name));
  columns.finish();
  check.finish();
  return rules;
}

// A bare key where TOML allows one.
std::string toml_key(const std::string& name) {
  const bool bare = !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
  return bare ? name : toml_quoted(name);
}

// A percentage that is not below the share: 0, or rounded up with one more point of room.
std::string roomy_percent(double share) {
  return share == 0 ? "0%" : fmt::format("{:.0f}%", std::min(100.0, std::ceil(share * 100) + 1));
}

std::string toml_number(double value) {
  return std::abs(value) < 1e15 && value == std::floor(value) ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

bool may_be_personal(const ColumnStatistics& column) {
  return !column.personal.empty() || personal_column(column.name);
}

// Widens what is known of a column by another split.
void add_split(ColumnStatistics& column, const ColumnStatistics& other) {
  if (other.type.empty()) return;
  if (column.is_number() && other.is_number()) {
    if (other.type == "float") column.type = "float";
    column.low = std::min(column.low, other.low), column.high = std::max(column.high, other.high);
  } else if (column.type != other.type) {
    column.type = "mixed";
  }
  for (const ValueCount& each : other.top) {
    const auto found = std::ranges::find(column.top, each.value, &ValueCount::value);
    if (found == column.top.end()) column.top.push_back(each), ++column.distinct;
  }
  column.distinct_exact &= other.distinct_exact,
      column.top_exact &= other.top_exact && other.top.size() == other.distinct;
  column.top_whole &= other.top_whole;
  column.personal.insert(other.personal.begin(), other.personal.end());
}

double share_missing(const ColumnStatistics& column) {
  return column.count == 0 ? 0 : static_cast<double>(column.missing) / static_cast<double>(column.count);
}

bool is_unique(const ColumnStatistics& column) {
  constexpr std::uint64_t kFew = 20;
  const std::uint64_t present = column.count - column.missing;
  return column.distinct_exact && column.distinct == present && present >= kFew && column.type != "float";
}

void infer_column(ColumnStatistics column, const std::vector<const ColumnStatistics*>& others, std::string& out) {
  constexpr std::uint64_t kFew = 20;
  if (column.type.empty()) return;
  out += fmt::format("\n[check.columns.{}]\n", toml_key(column.name));
  bool unique = is_unique(column) && column.top_exact;
  double missing = share_missing(column);
  const std::uint64_t present = column.count - column.missing;
  bool measured = column.numbers == present;  // low and high are of all values
  for (const ColumnStatistics* other : others) {
    unique &= is_unique(*other), missing = std::max(missing, share_missing(*other));
    measured &= other->numbers == other->count - other->missing;
    add_split(column, *other);
  }
  const bool known = column.type != "mixed" && column.type != "list" && column.type != "object";
  if (known) out += fmt::format("type = \"{}\"\n", column.type);
  const bool personal = may_be_personal(column);
  if (column.is_number() && measured && !personal)
    out += fmt::format("range = [{}, {}]\n", toml_number(column.low), toml_number(column.high));
  const bool whole = column.distinct_exact && column.top_exact && column.top_whole;
  if (column.type == "text" && whole && !personal && column.top.size() == column.distinct && column.distinct <= kFew &&
      column.distinct * 2 <= present) {
    std::vector<std::string> values;
    for (const ValueCount& each : column.top) values.push_back(each.value);
    std::ranges::sort(values);
    std::string list;
    for (const std::string& value : values) list += (list.empty() ? "" : ", ") + toml_quoted(value);
    out += "allowed = [" + list + "]\n";
  }
  if (unique) out += "unique = true\n";
  out += fmt::format("missing = \"{}\"\n", roomy_percent(missing));
}

}  // namespace

Rules parse_rules(std::string_view text) {
  const TomlNode root = parse_toml(text, kFile);
  TomlReader top(root, kFile, "");
  Rules rules;
  if (top.has("check")) {
    rules = read_rules(top.table("check", true));
    rules.declared = true;
  }
  if (top.has("labels")) {
    TomlReader labels = top.table("labels", true);
    rules.personal = labels.strings("personal", std::vector<std::string>{});
    labels.finish();
  }
  return rules;
}

Rules rules_of(const store::Store& store, const Digest& manifest) {
  const std::optional<store::Entry> entry = store.find(manifest, kFile);
  if (!entry) return {};
  if (entry->size > kLongest) fail(ErrorKind::kUsage, "{}: {} are too much", kFile, format_bytes(entry->size));
  const Bytes text = store.read_blob(entry->content);
  return parse_rules(as_text(text));
}

std::string inferred_rules(const Statistics& statistics, bool labels) {
  const auto train = statistics.splits.find("train");
  const auto found = train == statistics.splits.end() ? statistics.splits.begin() : train;
  if (found == statistics.splits.end()) return "[check]\n";
  const SplitStatistics& split = found->second;
  double leaks = 0, near = 0;
  for (const Leak& leak : statistics.leaks)
    leaks = std::max(leaks, leak.equal_share), near = std::max(near, leak.alike_share);
  std::uint64_t least = split.items;
  for (const auto& [name, each] : statistics.splits) least = std::min(least, each.items);
  std::string out = "[check]\n";
  out += fmt::format("rows = [{}, {}]\n", least / 2, split.items * 10);
  const auto part = [&](std::uint64_t count) {
    return split.items == 0 ? 0 : static_cast<double>(count) / static_cast<double>(split.items);
  };
  if (split.unit != "lines") {
    out += fmt::format("duplicates = \"{}\"\n", roomy_percent(part(split.equal.items)));
    out += fmt::format("leaks = \"{}\"\n", roomy_percent(leaks));
    out += fmt::format("near_leaks = \"{}\"\n", roomy_percent(near));
  }
  out += "drift = 0.25\n";
  if (split.kind != "rows") return out;
  std::string personal;
  for (const ColumnStatistics& column : split.columns) {
    std::vector<const ColumnStatistics*> others;
    for (const auto& [name, other] : statistics.splits)
      if (const ColumnStatistics* same = &other == &split ? nullptr : other.column(column.name)) others.push_back(same);
    infer_column(column, others, out);
    if (may_be_personal(column)) personal += (personal.empty() ? "" : ", ") + toml_quoted(column.name);
  }
  if (labels && !personal.empty()) out += "\n[labels]\npersonal = [" + personal + "]\n";
  return out;
}

}  // namespace mlx::data
