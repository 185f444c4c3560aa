// A project may rest for a year and then continue. If it was silent for years and then records again, the clock is
// probably wrong.
#include "registry/operations/clock_doubt.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/git.h"
#include "base/log.h"
#include "registry/operations/operation.h"

namespace mlx::registry {
namespace {

constexpr std::int64_t kYear = std::int64_t{31'556'952} * 1'000'000;
constexpr std::int64_t kFarAhead = 2 * kYear;

std::optional<std::int64_t> time_of_head(const std::string& root) {
  try {
    const std::optional<std::string> git = find_git_root(root);
    return git ? git_head_time(*git) : std::nullopt;
  } catch (const Error& error) {
    log("git's HEAD gives no time: {}", error.message);
    return std::nullopt;
  }
}

}  // namespace

std::int64_t recordable_time(std::int64_t now) {
  if (now >= kMostTime) {
    throw Error(ErrorKind::kIo, fmt::format("this machine's clock is wrong: it says {}", iso_time(now)),
                "set the clock, then try again; nothing is recorded with such a time");
  }
  return std::max<std::int64_t>(now, 0);
}

std::string far_ahead(std::int64_t now, std::int64_t before) {
  if (now - before <= kFarAhead) return {};
  return fmt::format(
      "this machine's clock says {}, {} years after the last time recorded here; if it is wrong, so is the time "
      "recorded now",
      iso_time(now), (now - before) / kYear);
}

std::string doubt_of_clock(store::Database& db, const std::string& root, std::int64_t now) {
  store::Statement last = db.prepare("SELECT time FROM operations ORDER BY seq DESC LIMIT 1");
  std::optional<std::int64_t> before;
  if (last.step()) before = last.int64(0);
  if (before && far_ahead(now, *before).empty()) return {};
  if (const auto head = time_of_head(root)) before = std::max(before.value_or(*head), *head);
  return before ? far_ahead(now, *before) : std::string();
}

// Operations accepted after `before` prove nothing: a wrong clock may have dated them too.
bool is_age_unknown(store::Database& db, const std::string& root, std::int64_t now, std::int64_t before) {
  store::Statement last = db.prepare("SELECT max(time) FROM taken WHERE time < ?");
  if (!last.bind(before).step() || last.null(0) || far_ahead(now, last.int64(0)).empty()) return false;
  const std::optional<std::int64_t> head = time_of_head(root);
  return !head || !far_ahead(now, *head).empty();
}

}  // namespace mlx::registry
