// How soon drift is seen, and how often it is seen where there is none: streams of rows of 20 columns that change at a
// known item. Prints a table. usage: bench_drift [STREAMS]
//
// A reference has 20,000 rows. Twelve columns are numbers (normal, log-normal, uniform, whole numbers), eight are
// categories of 2 to 30 values. After 20 windows one column changes; the stream then has 20 more. A false alarm is one
// before the change, or of another column.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "monitor/drift.h"
#include "tests/monitor/draws.h"

namespace {

using namespace mlx::monitor;

constexpr std::size_t kColumns = 20, kNumbers = 12, kWindows = 20;

using mlx::monitor::test::Draws;

struct Change {
  std::string name;
  std::size_t column;
  double shift = 0, scale = 1, missing = 0, share = 0;  // share: of values that become `value`
  std::string value = "0";
};

void add_row(auto& to, Draws& draws, const Change* change) {
  for (std::size_t i = 0; i < kColumns; ++i) {
    const Change* const now = change && change->column == i ? change : nullptr;
    if (now && draws.uniform() < now->missing) continue;
    if (i < kNumbers) {
      const double x = draws.normal() * (now ? now->scale : 1) + (now ? now->shift : 0);
      const double values[] = {x, std::exp(x), 0.5 * std::erfc(-x / std::sqrt(2.0)), std::round(3 * x)};
      to.add(i, values[i % 4]);
      continue;
    }
    const double kinds = static_cast<double>(2 + 4 * (i - kNumbers));
    const bool moved = now && draws.uniform() < now->share;
    to.add(i, moved ? now->value : std::to_string(static_cast<int>(draws.uniform() * draws.uniform() * kinds)));
  }
  to.next();
}

struct Counted {
  std::vector<double> delays;  // items after the change
  std::size_t missed = 0, false_alarms = 0, windows_before = 0;
};

void run_stream(const std::vector<ColumnReference>& reference, const Change& change, std::size_t size,
                std::uint64_t persist, std::uint64_t seed, Counted& out) {
  Draws draws(seed);
  Persistence persistence(persist);
  Window window(reference);
  const std::string wanted = reference[change.column].column.name;
  std::size_t found = 0;
  for (std::size_t w = 0; w < 2 * kWindows; ++w) {
    window.clear();
    for (std::size_t i = 0; i < size; ++i) add_row(window, draws, w < kWindows ? nullptr : &change);
    out.windows_before += w < kWindows;
    for (const std::string& name : persistence.see(compare(reference, window, {}))) {
      if (w < kWindows || name != wanted) ++out.false_alarms;
      if (w >= kWindows && name == wanted && found == 0) found = (w - kWindows + 1) * size;
    }
  }
  if (found == 0) ++out.missed;
  if (found > 0) out.delays.push_back(static_cast<double>(found));
}

}  // namespace

int main(int argc, char** argv) {
  const int streams = argc > 1 ? std::atoi(argv[1]) : 100;
  std::vector<Column> columns;
  for (std::size_t i = 0; i < kColumns; ++i) columns.push_back({fmt::format("c{}", i), i < kNumbers, false});
  Recorder recorder(columns);
  Draws draws(1);
  for (int i = 0; i < 20000; ++i) add_row(recorder, draws, nullptr);
  const std::vector<ColumnReference> reference = recorder.finish();

  const std::vector<Change> changes = {{.name = "mean + 0.25 std", .column = 0, .shift = 0.25},
                                       {.name = "mean + 0.5 std", .column = 0, .shift = 0.5},
                                       {.name = "mean + 1 std", .column = 0, .shift = 1},
                                       {.name = "std x 1.5", .column = 4, .scale = 1.5},
                                       {.name = "10 % missing", .column = 1, .missing = 0.1},
                                       {.name = "5 % new value", .column = 14, .share = 0.05, .value = "new"},
                                       {.name = "15 % to one of 10 values", .column = 14, .share = 0.15},
                                       {.name = "40 % to one of 10 values", .column = 14, .share = 0.4}};
  fmt::print("{:<26} {:>6} {:>7} {:>8} {:>8} {:>8} {:>8} {:>12}\n", "change", "window", "persist", "found", "delay p50",
             "p90", "streams", "false/1000");
  for (const Change& change : changes)
    for (const std::size_t size : {std::size_t{200}, std::size_t{1000}})
      for (const std::uint64_t persist : {1, 2, 3}) {
        Counted counted;
        for (int s = 0; s < streams; ++s)
          run_stream(reference, change, size, persist, 1000 + static_cast<std::uint64_t>(s), counted);
        std::ranges::sort(counted.delays);
        const auto at = [&](double share) {
          return counted.delays.empty()
                     ? std::string("-")
                     : fmt::format("{:.0f}", counted.delays[static_cast<std::size_t>(
                                                 share * static_cast<double>(counted.delays.size() - 1))]);
        };
        fmt::print(
            "{:<26} {:>6} {:>7} {:>7.0f}% {:>9} {:>8} {:>8} {:>11.2f}\n", change.name, size, persist,
            100.0 * static_cast<double>(counted.delays.size()) / streams, at(0.5), at(0.9), streams,
            1000.0 * static_cast<double>(counted.false_alarms) / (2.0 * static_cast<double>(counted.windows_before)));
      }
}
