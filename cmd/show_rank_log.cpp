// Logs as they were kept, one after the other.
#include "cmd/show_rank_log.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "registry/versions/runs.h"

namespace mlx::cmd {
namespace {

constexpr const char* kAll = "all";
constexpr const char* kMpirun = "mpirun";

// Whether a log is of the rank: "rank 1" and "rank 1 on b" are of 1.
bool is_of(const registry::RankLog& log, const std::string& rank) {
  if (rank == kAll || log.role == rank) return true;
  const std::string name = "rank " + rank;
  return log.role == name || log.role.starts_with(name + " ");
}

std::size_t lines_in(const std::string& text) {
  return static_cast<std::size_t>(std::ranges::count(text, '\n'));
}

}  // namespace

int show_rank_log(const std::string& reference, const std::string& rank, Context& context) {
  if (rank != kAll && rank != kMpirun && rank.find_first_not_of("0123456789") != std::string::npos)
    fail(ErrorKind::kUsage, "--rank-log {}: expected the number of a rank, all or mpirun", rank);
  const registry::Run run = registry::read_run(context.repository(), reference);
  std::vector<registry::RankLog> logs = registry::logs(context.repository(), run.id);
  const bool any = !logs.empty();
  std::erase_if(logs, [&](const registry::RankLog& log) { return !is_of(log, rank); });
  if (logs.empty()) {
    throw Error(ErrorKind::kNotFound,
                any ? fmt::format("run:{}: nothing is kept of rank {}, which said nothing", run.id, rank)
                    : fmt::format("run:{}: no rank said anything, or it ran on one", run.id),
                fmt::format("mlx show run:{} lists whose logs it has", run.id));
  }
  if (context.wants_json()) {
    Json list = Json::array();
    for (const registry::RankLog& log : logs) list.push_back({{"of", log.role}, {"text", log.text}});
    context.json({{"schema", "mlx.show/1"}, {"kind", "log"}, {"run", run.id}, {"logs", std::move(list)}});
    return 0;
  }
  context.start_pager();
  for (const registry::RankLog& log : logs) {
    if (logs.size() > 1) context.line(context.bold(log.role));
    context.line(log.text.substr(0, log.text.find_last_not_of('\n') + 1));
  }
  return 0;
}

void print_log_list(Context& context, const std::string& run) {
  const std::vector<registry::RankLog> logs = registry::logs(context.repository(), run);
  if (logs.empty()) return;
  context.line("\n" + context.bold("logs") + context.dim("  (--rank-log N prints one)"));
  for (const registry::RankLog& log : logs)
    context.line(fmt::format("  {}  {}", log.role, counted(lines_in(log.text), "line")));
}

Json logs_json(registry::Repository& repository, const std::string& run) {
  Json list = Json::array();
  for (const registry::RankLog& log : registry::logs(repository, run))
    list.push_back({{"of", log.role}, {"bytes", log.text.size()}, {"lines", lines_in(log.text)}});
  return list;
}

}  // namespace mlx::cmd
