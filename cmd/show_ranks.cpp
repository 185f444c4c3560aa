// A line for the end of a training, and a table for `mlx show`.
#include "cmd/show_ranks.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/cli/foreign_text.h"
#include "data/kind.h"

namespace mlx::cmd {
namespace {

constexpr const char* kWhat = "summary of a run";

// Null for a training on one rank, or by an mlx that did not record it.
const Json* ranks_of(const Json& summary) {
  if (!summary.is_object()) return nullptr;
  const auto communication = summary.find("communication");
  if (communication == summary.end() || !communication->is_object()) return nullptr;
  const auto ranks = communication->find("ranks");
  return ranks == communication->end() || !ranks->is_array() || ranks->empty() ? nullptr : &*ranks;
}

std::string size_text(std::int64_t bytes) {
  return format_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(0, bytes)));
}

// "images": what the rank counted; "" if no kind of data counts that.
std::string unit_of(const Json& rank) {
  for (const data::Kind* kind : data::kinds())
    if (rank.contains(std::string(kind->unit) + "_per_second")) return kind->unit;
  return "";
}

}  // namespace

std::string ranks_text(const Json& summary) {
  const Json* const ranks = ranks_of(summary);
  if (!ranks) return "";
  const Json& communication = summary.at("communication");
  const std::int64_t slowest = json_int(communication, "slowest", kWhat);
  return fmt::format(
      "{} ranks: {:.0f} % of their time waiting for messages, {} sent by the first; slowest rank {}, {:.2f}x "
      "the others; {:.3g} rank-hours",
      json_int(summary, "ranks", kWhat), 100 * json_number(communication, "waiting_share", kWhat),
      size_text(json_int(communication, "bytes_sent", kWhat)), slowest, json_number(communication, "imbalance", kWhat),
      json_number(summary, "rank_hours", kWhat));
}

void print_ranks(Context& context, const registry::Run& run) {
  const Json summary = run.summary.empty() ? Json() : parse_json(run.summary, kWhat);
  const Json* const ranks = ranks_of(summary);
  if (!ranks) return;
  const std::string unit = unit_of(ranks->front());
  std::size_t host = 4;
  for (const Json& rank : *ranks) host = std::max(host, json_string(rank, "host", kWhat).size());
  context.line("\n" + context.bold("ranks"));
  context.line(context.dim(fmt::format("  {:>4}  {:<{}}  {:>7}  {:>12}  {:>9}  {:>9}  {:>9}  {:>10}", "rank", "host",
                                       host, "threads", unit + "/s", "computing", "reading", "waiting", "sent")));
  for (const Json& rank : *ranks) {
    const auto number = [&](const std::string& key) { return json_number(rank, key, kWhat); };
    const double seconds = number("seconds");
    const auto share = [&](double part) { return seconds > 0 ? fmt::format("{:.1f} %", 100 * part / seconds) : "-"; };
    const double reading = number("reading"), waiting = number("waiting");
    context.line(fmt::format("  {:>4}  {:<{}}  {:>7}  {:>12}  {:>9}  {:>9}  {:>9}  {:>10}",
                             json_int(rank, "rank", kWhat), printable(json_string(rank, "host", kWhat)), host,
                             json_int(rank, "threads", kWhat),
                             unit.empty() ? "" : brief_number(number(unit + "_per_second")),
                             share(std::max(0.0, seconds - reading - waiting)), share(reading), share(waiting),
                             size_text(json_int(rank, "bytes_sent", kWhat))));
  }
}

}  // namespace mlx::cmd
