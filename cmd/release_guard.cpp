// See release_guard.h.
#include "cmd/release_guard.h"

#include <fmt/format.h>

#include <charconv>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace mlx::cmd {
namespace {

constexpr std::uint64_t kFewest = 10, kWindow = 10'000;

[[noreturn]] void refuse_bound(std::string_view bound) {
  throw Error(ErrorKind::kUsage, fmt::format("--rollback-on: '{}' is no bound", printable(bound)),
              "for example errors=1%,p99=50ms: a share in per cent, a time in ms or s");
}

// "50ms", "1.5s", "1%": the number before `unit`.
double number_before(std::string_view text, std::string_view unit, std::string_view bound) {
  double value = 0;
  if (!text.ends_with(unit)) refuse_bound(bound);
  text.remove_suffix(unit.size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0)) refuse_bound(bound);
  return value;
}

ReleaseBound parse_bound(std::string_view text) {
  ReleaseBound out{.text = std::string(text)};
  const std::size_t equals = text.find('=');
  if (equals == std::string_view::npos) refuse_bound(text);
  const std::string_view name = text.substr(0, equals), value = text.substr(equals + 1);
  if (name == "errors") {
    out.share = number_before(value, "%", text) / 100;
    if (out.share >= 1) refuse_bound(text);
    return out;
  }
  if (!name.starts_with('p')) refuse_bound(text);
  const double percentile = number_before(name.substr(1), "", text);
  if (percentile <= 0 || percentile >= 100) refuse_bound(text);
  out.share = 1 - percentile / 100;
  out.seconds = value.ends_with("ms") ? number_before(value, "ms", text) / 1000 : number_before(value, "s", text);
  if (*out.seconds <= 0) refuse_bound(text);
  return out;
}

std::uint64_t answers_in(const serve::ModelCounts& counts) {
  std::uint64_t sum = counts.failed;
  for (const std::uint64_t count : counts.latency.counts) sum += count;
  return sum;
}

// Those of the histogram's intervals that lie beyond.
std::uint64_t slower_than(double seconds, const serve::Histogram& latency) {
  std::uint64_t sum = 0;
  for (std::size_t i = 1; i < latency.counts.size(); ++i)
    if (latency.bounds[i - 1] >= seconds) sum += latency.counts[i];
  return sum;
}

std::uint64_t wrong_in(const ReleaseBound& bound, const serve::ModelCounts& counts) {
  return bound.seconds ? slower_than(*bound.seconds, counts.latency) : counts.failed;
}

}  // namespace

std::vector<ReleaseBound> parse_release_bounds(const std::string& text) {
  std::vector<ReleaseBound> out;
  if (text.empty()) return out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    out.push_back(parse_bound(std::string_view(text).substr(at, comma - at)));
    at = comma + 1;
  }
  return out;
}

void ReleaseGuard::begin(serve::ModelCounts counts) {
  if (!bounds_.empty()) start_ = std::move(counts);
}

std::optional<std::string> ReleaseGuard::broken(const serve::ModelCounts& now) {
  if (!start_) return std::nullopt;
  const std::uint64_t answers = answers_in(now) - answers_in(*start_);
  for (const ReleaseBound& bound : bounds_) {
    const std::uint64_t wrong = wrong_in(bound, now) - wrong_in(bound, *start_);
    const double share = answers > 0 ? static_cast<double>(wrong) / static_cast<double>(answers) : 0;
    if (wrong < kFewest || share <= bound.share) continue;
    return fmt::format("{} of {} answers {} ({:.2f} %), {} allowed", wrong, answers,
                       bound.seconds ? fmt::format("took more than {:g} ms", 1000 * *bound.seconds) : "were errors",
                       100 * share, bound.text);
  }
  if (answers > kWindow) start_ = now;
  return std::nullopt;
}

}  // namespace mlx::cmd
