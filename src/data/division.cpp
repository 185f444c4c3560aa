// Draws parts by hash, by value, by time and by class.

#include "data/division.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "base/error.h"
#include "data/content_hash.h"

namespace mlx::data {
namespace {

// The bound below which a hash belongs to the share.
std::uint64_t share_of_hashes(double share) {
  return static_cast<std::uint64_t>(std::min(share * 0x1p64, 0x1.fffffffffffffp63));
}

std::int64_t share_of_count(double share, std::size_t count) {
  return std::llround(share * static_cast<double>(count));
}

// Reads `digits` digits at the beginning of `text`.
bool take_number(std::string_view& text, std::size_t digits, int& value) {
  if (text.size() < digits) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, value);
  if (error != std::errc() || end != text.data() + digits || text[0] == '-') return false;
  text.remove_prefix(digits);
  return true;
}

bool take_sign(std::string_view& text, char sign) {
  if (!text.starts_with(sign)) return false;
  text.remove_prefix(1);
  return true;
}

// Of "13:45", "13:45:10", "13:45:10.5".
bool take_time(std::string_view& text, double& seconds) {
  int hour = 0, minute = 0, second = 0;
  if (!take_number(text, 2, hour) || !take_sign(text, ':') || !take_number(text, 2, minute)) return false;
  if (take_sign(text, ':') && !take_number(text, 2, second)) return false;
  if (hour > 24 || minute > 59 || second > 60) return false;
  seconds += hour * 3600 + minute * 60 + second;
  if (take_sign(text, '.')) {
    for (double unit = 0.1; !text.empty() && text[0] >= '0' && text[0] <= '9'; unit /= 10) {
      seconds += unit * (text[0] - '0');
      text.remove_prefix(1);
    }
  }
  return true;
}

// Of "Z", "+02:00", "-0530"; nothing means UTC.
bool take_zone(std::string_view& text, double& seconds) {
  if (text.empty() || take_sign(text, 'Z')) return text.empty();
  const bool east = text[0] == '+';
  if (!take_sign(text, '+') && !take_sign(text, '-')) return false;
  int hours = 0, minutes = 0;
  if (!take_number(text, 2, hours)) return false;
  (void)take_sign(text, ':');
  if (!text.empty() && !take_number(text, 2, minutes)) return false;
  seconds += (east ? -1 : 1) * (hours * 3600 + minutes * 60);
  return text.empty();
}

std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

void check_not_empty(const SplitRule& rule, const std::vector<Part>& parts) {
  for (const Part part : {Part::kTrain, Part::kValid, Part::kTest}) {
    if (!rule.makes(part) || std::ranges::find(parts, part) != parts.end()) continue;
    throw Error(ErrorKind::kUsage,
                fmt::format("the division of {} items leaves split '{}' without any", parts.size(), name_of(part)),
                "see the shares, values and seed of [split] in dataset.toml, or of split in the config's [data]");
  }
}

}  // namespace

Part Divider::drawn(std::uint64_t hash) const {
  const std::uint64_t test = share_of_hashes(rule_.test), valid = share_of_hashes(rule_.valid);
  return hash < test ? Part::kTest : hash - test < valid ? Part::kValid : Part::kTrain;
}

const char* Divider::add(std::uint64_t content, std::string_view value) {
  const std::uint64_t seed = mixed(rule_.seed + 0x9E3779B97F4A7C15ull);
  const auto is_in = [&](const std::vector<std::string>& values) {
    return std::ranges::find(values, value) != values.end();
  };
  switch (rule_.by) {
    case DivideBy::kFraction:
      parts_.push_back(drawn(mixed(content ^ seed)));
      break;
    case DivideBy::kGroup:
      parts_.push_back(drawn(mixed((value.empty() ? content : hash_of(value)) ^ seed)));
      break;
    case DivideBy::kColumn:
      parts_.push_back(is_in(rule_.test_values)    ? Part::kTest
                       : is_in(rule_.valid_values) ? Part::kValid
                                                   : Part::kTrain);
      break;
    case DivideBy::kTime: {
      const std::optional<double> date = seconds_of(value);
      const std::optional<double> time = date ? date : number_in(value);
      if (!time) return "is neither a date (YYYY-MM-DD) nor a number";
      if (!times_.empty() && dates_ != date.has_value())
        return dates_ ? "is not a date as those before" : "is a date, those before are numbers";
      dates_ = date.has_value();
      times_.push_back(*time);
      break;
    }
    case DivideBy::kStratified:
      hashes_.push_back(mixed(content ^ seed));
      classes_.push_back(
          number_of_class_.try_emplace(std::string(value), static_cast<std::uint32_t>(number_of_class_.size()))
              .first->second);
      break;
  }
  return nullptr;
}

void Divider::by_time() {
  std::vector<double> ascending = times_;
  std::ranges::sort(ascending);
  const auto count = static_cast<std::int64_t>(ascending.size());
  // The first time of the newest `share` of all; above all times if that is none.
  const auto begin_of = [&](double share) {
    const std::int64_t at = count - share_of_count(share, ascending.size());
    return at < count ? ascending[static_cast<std::size_t>(at)] : std::numeric_limits<double>::infinity();
  };
  const double test = begin_of(rule_.test), valid = begin_of(rule_.test + rule_.valid);
  parts_.reserve(times_.size());
  for (const double time : times_)
    parts_.push_back(time >= test ? Part::kTest : time >= valid ? Part::kValid : Part::kTrain);
}

void Divider::by_class() {
  std::vector<std::size_t> order(hashes_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::make_tuple(classes_[i], hashes_[i], i); });
  parts_.assign(order.size(), Part::kTrain);
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    while (end < order.size() && classes_[order[end]] == classes_[order[begin]]) ++end;
    const std::int64_t test = share_of_count(rule_.test, end - begin);
    const std::int64_t both = share_of_count(rule_.test + rule_.valid, end - begin);
    for (std::int64_t i = 0; i < both; ++i)
      parts_[order[begin + static_cast<std::size_t>(i)]] = i < test ? Part::kTest : Part::kValid;
    begin = end;
  }
}

std::vector<Part> Divider::finish() {
  if (rule_.by == DivideBy::kTime) by_time();
  if (rule_.by == DivideBy::kStratified) by_class();
  check_not_empty(rule_, parts_);
  return std::move(parts_);
}

std::vector<Part> divide_rows(const RowFile& file, const SplitRule& rule, const Interruption& interruption) {
  if (rule.by == DivideBy::kStratified && rule.column.empty()) {
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: a stratified division of rows needs the column of the classes", file.name),
                "add column = \"NAME\" to [split]");
  }
  return in_table(file, [&] {
    const std::unique_ptr<TableReader> reader = read_table(file);
    CellReader cells(file.kind);
    Divider divider(rule);
    std::vector<std::uint64_t> names;
    std::string chosen;
    std::uint64_t rows = 0;
    bool found = rule.column.empty();
    for (Row row; reader->next(row);) {
      for (std::size_t i = names.size(); i < reader->columns().size(); ++i) {
        names.push_back(hash_of(reader->columns()[i]));
        found |= reader->columns()[i] == rule.column;
      }
      // Neither the order of columns nor the table's format changes the sum.
      std::uint64_t sum = 0;
      chosen.clear();
      for (const Cell& cell : row.cells) {
        const RowValue value = cells.read(cell);
        if (value.kind == RowValue::Kind::kMissing) continue;
        sum += mixed(names[cell.column] ^ hash_of(value.text));
        if (!rule.column.empty() && reader->columns()[cell.column] == rule.column) chosen = value.text;
      }
      if (++rows % 4096 == 0) interruption.check();
      if (const char* const wrong = divider.add(mixed(sum), chosen))
        fail_at_row(file, row.offset, fmt::format("column '{}': '{}' {}", rule.column, chosen.substr(0, 40), wrong));
    }
    if (!found) {
      const std::string close = did_you_mean(rule.column, reader->columns());
      throw Error(ErrorKind::kUsage,
                  fmt::format("{}: [split] column: there is no column '{}'{}", file.name, rule.column,
                              close.empty() ? "" : fmt::format("; did you mean '{}'?", close)),
                  "");
    }
    return divider.finish();
  });
}

std::vector<Part> divide_numbered(std::span<const std::int32_t> labels, const SplitRule& rule) {
  if (rule.by != DivideBy::kFraction && rule.by != DivideBy::kStratified) {
    throw Error(ErrorKind::kUsage, "these images have no columns to be divided by",
                "divide by fraction or stratified, or give photos a table of labels");
  }
  Divider divider(rule);
  for (std::size_t i = 0; i < labels.size(); ++i) (void)divider.add(mixed(i + 1), std::to_string(labels[i]));
  return divider.finish();
}

std::vector<Part> divide_files(const std::vector<store::Entry>& files, const SplitRule& rule) {
  if (rule.by != DivideBy::kFraction || files.size() < 2) {
    throw Error(ErrorKind::kUsage,
                rule.by == DivideBy::kFraction ? fmt::format("{}: one file of text is not divided", files.at(0).path)
                                               : "text is divided by fraction only, file by file",
                "in the config, [data] hold_out keeps the end of the text for validation");
  }
  Divider divider(rule);
  for (const store::Entry& file : files) (void)divider.add(content_of(file), "");
  return divider.finish();
}

std::uint64_t content_of(const store::Entry& file) {
  return hash_of(file.content.text());
}

IndexSet items_of(const std::vector<Part>& parts, Part part) {
  const auto count = static_cast<std::int64_t>(parts.size());
  IndexList items(std::ranges::count(parts, part), count);
  std::int64_t at = 0;
  for (std::int64_t i = 0; i < count; ++i)
    if (parts[static_cast<std::size_t>(i)] == part) items.set(at++, i);
  return IndexSet(std::move(items));
}

std::optional<double> seconds_of(std::string_view text) {
  int year = 0, month = 0, day = 0;
  if (!take_number(text, 4, year) || !take_sign(text, '-') || !take_number(text, 2, month) || !take_sign(text, '-') ||
      !take_number(text, 2, day))
    return {};
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return {};
  auto seconds = static_cast<double>(std::chrono::sys_days(date).time_since_epoch().count()) * 86400;
  if (text.empty()) return seconds;
  if (!take_sign(text, 'T') && !take_sign(text, ' ')) return {};
  if (!take_time(text, seconds) || !take_zone(text, seconds)) return {};
  return seconds;
}

}  // namespace mlx::data
