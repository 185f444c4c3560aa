// The launcher draws what rank 0 tells of its progress: only it has the terminal, and only it hears all ranks.
#include "cmd/rank_view.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/error.h"
#include "registry/repository.h"

namespace mlx::cmd {
namespace {

constexpr std::size_t kShownHosts = 4;
constexpr auto kPaced = std::chrono::milliseconds(500);

std::string rate_text(double rate) {
  return rate >= 1e6   ? fmt::format("{:.1f}M", rate / 1e6)
         : rate >= 1e4 ? fmt::format("{:.1f}k", rate / 1e3)
         : rate >= 100 ? fmt::format("{:.0f}", rate)
                       : fmt::format("{:.3g}", rate);
}

}  // namespace

std::string pace_text(const dist::Pace::Figures& figures) {
  std::string out = fmt::format("{} {}/s", rate_text(figures.units_per_second), figures.unit);
  if (figures.hosts.size() > 1) {
    for (std::size_t i = 0; i < std::min(kShownHosts, figures.hosts.size()); ++i)
      out += fmt::format("{}{} {}", i == 0 ? " of " : ", ", figures.hosts[i].first, rate_text(figures.hosts[i].second));
    if (figures.hosts.size() > kShownHosts) out += fmt::format(" and {} more", figures.hosts.size() - kShownHosts);
  }
  return out + fmt::format("  slowest {} {:.2f}x  waiting {:.0f} %  {}/s", figures.slowest, figures.factor,
                           100 * figures.waiting, format_bytes(static_cast<std::uint64_t>(figures.bytes_per_second)));
}

RankView::RankView(Context& context) : bar_(context.quiet(), context.colour(), context.progress().interruption()) {}

void RankView::hear_beat(const dist::Beat& beat, Clock::time_point now) {
  names_[beat.rank] = beat.name;
  pace_.take(beat, now);
  if (now - paced_ < kPaced) return;
  paced_ = now;
  const std::optional<dist::Pace::Figures> figures = pace_.figures();
  bar_.set_below(figures ? pace_text(*figures) : "");
  if (const std::string slow = pace_.slow_rank(); !slow.empty()) bar_.warn(slow);
}

void RankView::hear_line(int rank, std::string_view line) {
  logs_.add(rank, line);
  // An expected stop is told by the launcher.
  const bool stop = stops_ && line.find("interrupted after step ") != std::string_view::npos;
  const bool hidden = stop || (hides_hint_ && line.find("hint:") != std::string_view::npos);
  hides_hint_ = stop;
  if (!hidden) bar_.pass_on(line);
}

void RankView::hear_stage(const dist::Stage& stage) {
  const bool next = stage.name != shown_.name || stage.total != shown_.total || stage.done < shown_.done;
  if (stage.ended) {
    bar_.end();
  } else if (shown_.ended || next) {
    bar_.begin(stage.name, stage.total, stage.unit);
    bar_.advance(stage.done);
  } else {
    bar_.note(stage.note);
    bar_.advance(stage.done - shown_.done);
  }
  shown_ = stage;
}

void RankView::end() {
  bar_.end();
}

std::vector<registry::RankLog> RankView::logs() const {
  std::vector<registry::RankLog> out;
  for (const auto& [rank, text] : logs_.texts()) {
    const auto name = names_.find(rank);
    const std::string role = rank < 0 ? "mpirun" : name == names_.end() ? fmt::format("rank {}", rank) : name->second;
    out.push_back({role, text});
  }
  return out;
}

void keep_logs(const RankView& view, Context& context) {
  if (view.run().empty()) return;
  const Interruption::Deferred deferred(context.progress().interruption());
  try {
    registry::add_logs(context.repository(), view.run(), view.logs());
  } catch (const Error& error) {
    context.progress().warn("what the ranks said is not kept: " + error.message);
  }
}

}  // namespace mlx::cmd
