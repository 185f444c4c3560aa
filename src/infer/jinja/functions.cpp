// The functions range and strftime_now.
#include <fmt/format.h>

#include <ctime>
#include <utility>

#include "infer/jinja/builtins.h"

namespace mlx::infer::jinja {

Value range_of(const Arguments& arguments, Budget& budget) {
  constexpr std::int64_t kLongestRange = 100'000;
  const GivenArguments given("range", arguments, {"start", "stop", "step"});
  std::int64_t start = 0, stop = given.needed(0).is_integer() ? given.integer(0, 0) : 0;
  if (!given.needed(0).is_integer()) fault("range: integers are needed");
  if (given[1]) start = std::exchange(stop, given.integer(1, 0));
  const std::int64_t step = given.integer(2, 1);
  if (step == 0) fault("range: the step is 0");
  std::vector<Value> items;
  for (std::int64_t at = start; step > 0 ? at < stop : at > stop;) {
    if (static_cast<std::int64_t>(items.size()) >= kLongestRange)
      fault(fmt::format("range: more than {} numbers", kLongestRange));
    items.push_back({at});
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return list_value(std::move(items), ListKind::kView, budget);
}

Value time_text(const Arguments& arguments, const std::tm& now, Budget& budget) {
  constexpr std::size_t kLongestFormat = 128;
  const GivenArguments given("strftime_now", arguments, {"format"});
  const std::string& format = given.text(0);
  if (format.size() > kLongestFormat) unsupported("a long format of time");
  if (format.empty()) return string_value({}, budget);
  std::string out(std::size_t{64} * kLongestFormat, '\0');
  // A blank, so that nothing written differs from a text that does not fit.
  out.resize(std::strftime(out.data(), out.size(), (format + " ").c_str(), &now));
  if (!out.empty()) out.pop_back();
  return string_value(std::move(out), budget);
}

}  // namespace mlx::infer::jinja
