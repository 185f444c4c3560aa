// Times as people type them.
#include "cmd/cli/moment.h"

#include <charconv>
#include <ctime>
#include <optional>

#include "base/clock.h"
#include "base/error.h"

namespace mlx::cmd {
namespace {

// "3 days", "3days", "3d": that long before now. nullopt if it is not a duration.
std::optional<std::int64_t> ago(const std::string& text) {
  std::int64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, count);
  if (error != std::errc() || count < 0 || count > 1'000'000) return std::nullopt;
  std::string unit(rest, end);
  unit.erase(0, unit.find_first_not_of(' ') == std::string::npos ? unit.size() : unit.find_first_not_of(' '));
  if (unit.ends_with(" ago")) unit.resize(unit.size() - 4);
  if (unit.size() > 1 && unit.ends_with('s')) unit.pop_back();
  const struct {
    const char *name, *brief;
    std::int64_t seconds;
  } units[] = {{"second", "s", 1},
               {"minute", "min", 60},
               {"hour", "h", 3600},
               {"day", "d", 86400},
               {"week", "w", std::int64_t{7} * 86400}};
  for (const auto& known : units) {
    if (unit == known.name || unit == known.brief) return unix_micros() - count * known.seconds * 1'000'000;
  }
  return std::nullopt;
}

std::optional<std::int64_t> calendar(const std::string& text) {
  for (const char* format : {"%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M",
                             "%Y-%m-%dT%H:%M:%S"}) {
    std::tm parts{};
    const char* const end = ::strptime(text.c_str(), format, &parts);
    if (end == nullptr || *end != '\0') continue;
    parts.tm_isdst = -1;
    const std::time_t seconds = text.ends_with('Z') ? ::timegm(&parts) : std::mktime(&parts);
    return std::int64_t{seconds} * 1'000'000;
  }
  return std::nullopt;
}

}  // namespace

std::int64_t parse_moment(const std::string& text, const std::string& option) {
  if (const auto moment = calendar(text)) return *moment;
  if (const auto moment = ago(text)) return *moment;
  throw Error(ErrorKind::kUsage, fmt::format("{}: '{}' is not a time", option, text),
              "write 2026-01-31, \"2026-01-31 12:00\" or \"3 days\"");
}

std::string clock_problem(std::int64_t unix_micros) {
  constexpr std::int64_t kYear = std::int64_t{31'556'952} * 1'000'000;
  if (unix_micros >= 54 * kYear && unix_micros < 130 * kYear) return {};  // 2024 to 2099
  return fmt::format("this machine's clock says {}, which is wrong: what is recorded now gets that time",
                     iso_time(unix_micros));
}

}  // namespace mlx::cmd
