// Tables: by kind of operation, with totals; the nodes that take longest; and the ranks, if there are several.
#include "cmd/print_profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/json.h"

namespace mlx::cmd {
namespace {

constexpr std::size_t kShownNodes = 20;

// Rates that an operation reached, of the time in which it ran.
double gigaflops(const graph::NodeTime& time) {
  return time.seconds > 0 ? time.flops / time.seconds / 1e9 : 0;
}
double gigabytes(const graph::NodeTime& time) {
  return time.seconds > 0 ? time.bytes / time.seconds / 1e9 : 0;
}

// The share of the machine's peak, if that is known.
std::string of_peak(double rate, double peak) {
  return peak > 0 ? fmt::format("{:>5.1f} %", 100e9 * rate / peak) : "      -";
}

class ProfileTable {
 public:
  ProfileTable(Context& context, const train::Profile& profile, const std::vector<graph::NodeTime>& rows)
      : context_(context), profile_(profile) {
    for (const graph::NodeTime& row : rows) name_ = std::max(name_, row.name.size());
  }
  void head(const char* what) const {
    context_.line(
        context_.dim(fmt::format("  {:<{}}  {:>6}  {:>9}  {:>7}  {:>8}  {:>7}  {:>6}  {:>7}  {}", what, name_, "calls",
                                 "ms/step", "share", "GFLOP/s", "of peak", "GB/s", "of peak", "kernels")));
  }
  void row(const graph::NodeTime& time) const {
    const double flops = gigaflops(time), bytes = gigabytes(time);
    const graph::MachinePeak peak = profile_.peak.value_or(graph::MachinePeak{});
    context_.line(fmt::format("{}  {:>8.1f}  {}  {:>6.1f}  {}  {}",
                              begin(time.name, fmt::format("{}", time.calls), time.seconds), flops,
                              of_peak(flops, peak.flops), bytes, of_peak(bytes, peak.bytes), time.kernel));
  }
  void total(const char* what, double seconds) const { context_.line(begin(what, "", seconds)); }

 private:
  std::string begin(const std::string& what, const std::string& calls, double seconds) const {
    return fmt::format("  {:<{}}  {:>6}  {:>9.4f}  {:>5.1f} %", what, name_, calls,
                       1e3 * seconds / static_cast<double>(profile_.steps), 100 * seconds / profile_.seconds);
  }

  Context& context_;
  const train::Profile& profile_;
  std::size_t name_ = 12;
};

// Milliseconds a step of each rank. Exchanges run beside the kernels; what they do not hide is waiting.
void print_rank_times(Context& context, const std::vector<train::RankProfile>& ranks) {
  if (ranks.empty()) return;
  std::size_t name = 12;
  for (const train::RankProfile& rank : ranks) name = std::max(name, rank.name.size());
  context.line("");
  context.line(context.dim(fmt::format("  {:<{}}  {:>9}  {:>9}  {:>9}  {:>9}  {:>9}  {:>9}  {:>10}", "rank", name,
                                       "ms/step", "kernels", "batches", "waiting", "share", "exchange", "sent/step")));
  for (const train::RankProfile& rank : ranks) {
    const auto steps = static_cast<double>(std::max<std::int64_t>(1, rank.steps));
    const auto ms = [&](double seconds) { return fmt::format("{:>9.4f}", 1e3 * seconds / steps); };
    const double share = rank.seconds > 0 ? 100 * rank.waiting / rank.seconds : 0;
    context.line(fmt::format("  {:<{}}  {}  {}  {}  {}  {:>7.1f} %  {}  {:>10}", rank.name, name, ms(rank.seconds),
                             ms(rank.kernel_seconds), ms(rank.batch_seconds), ms(rank.waiting), share,
                             ms(rank.exchanging),
                             format_bytes(static_cast<std::uint64_t>(static_cast<double>(rank.bytes_sent) / steps))));
  }
}

Json ranks_json(const std::vector<train::RankProfile>& ranks) {
  Json list = Json::array();
  for (const train::RankProfile& rank : ranks) {
    list.push_back({{"name", rank.name},
                    {"steps", rank.steps},
                    {"seconds", rank.seconds},
                    {"kernel_seconds", rank.kernel_seconds},
                    {"batch_seconds", rank.batch_seconds},
                    {"waiting_seconds", rank.waiting},
                    {"exchange_seconds", rank.exchanging},
                    {"bytes_sent", rank.bytes_sent}});
  }
  return list;
}

Json times_json(const std::vector<graph::NodeTime>& times) {
  Json list = Json::array();
  for (const graph::NodeTime& time : times) {
    list.push_back({{"name", time.name},
                    {"operation", time.op},
                    {"kernel", time.kernel},
                    {"calls", time.calls},
                    {"seconds", time.seconds},
                    {"flops", time.flops},
                    {"bytes", time.bytes}});
  }
  return list;
}

}  // namespace

void print_profile(Context& context, const train::Profile& profile) {
  context.line("");
  if (profile.steps == 0) return context.line("profile: only the first step ran, which does not count");
  const std::vector<graph::NodeTime> kinds = train::by_operation(profile);
  const std::string peak = profile.peak ? fmt::format("; the peak, measured after them: {:.1f} GFLOP/s, {:.1f} GB/s",
                                                      profile.peak->flops / 1e9, profile.peak->bytes / 1e9)
                                        : "";
  context.line(fmt::format("{} of {} steps, {:.2f} ms each{}", context.bold("profile"), profile.steps,
                           1e3 * profile.seconds / static_cast<double>(profile.steps), peak));
  const ProfileTable by_kind(context, profile, kinds);
  by_kind.head("operation");
  for (const graph::NodeTime& kind : kinds) by_kind.row(kind);
  by_kind.total("in kernels", profile.kernel_seconds());
  by_kind.total("batches", profile.batch_seconds);
  if (!profile.ranks.empty()) by_kind.total("waiting", profile.waiting);
  by_kind.total("rest", profile.seconds - profile.kernel_seconds() - profile.batch_seconds - profile.waiting);

  std::vector<graph::NodeTime> nodes = profile.operations;
  nodes.resize(std::min(nodes.size(), kShownNodes));
  context.line("");
  const ProfileTable by_node(context, profile, nodes);
  by_node.head("node");
  for (const graph::NodeTime& node : nodes) by_node.row(node);
  if (nodes.size() < profile.operations.size())
    context.line(fmt::format("  and {} more (--json lists all)", profile.operations.size() - nodes.size()));
  print_rank_times(context, profile.ranks);
}

Json profile_json(const train::Profile& profile) {
  Json peak;  // null if it is not known
  if (profile.peak) peak = {{"flops_per_second", profile.peak->flops}, {"bytes_per_second", profile.peak->bytes}};
  return {{"steps", profile.steps},
          {"seconds", profile.seconds},
          {"batch_seconds", profile.batch_seconds},
          {"kernel_seconds", profile.kernel_seconds()},
          {"waiting_seconds", profile.waiting},
          {"ranks", ranks_json(profile.ranks)},
          {"peak", std::move(peak)},
          {"operations", times_json(train::by_operation(profile))},
          {"nodes", times_json(profile.operations)}};
}

}  // namespace mlx::cmd
