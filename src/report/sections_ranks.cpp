// A training on several ranks: what each of them did over time, and their figures.
#include <algorithm>

#include "base/bytes.h"
#include "base/json.h"
#include "report/chart.h"
#include "report/html.h"
#include "report/sections.h"

namespace mlx::report {
namespace {

constexpr std::size_t kShownRanks = 16;

// The ranks' figures in the run's summary; an empty list if it has none.
Json ranks_in(const Facts& facts) {
  const std::string& text = facts.training->summary;
  const Json summary = text.empty() ? Json::object() : parse_json(text, "summary");
  if (!summary.is_object() || !summary.contains("communication")) return Json::array();
  const Json& communication = summary["communication"];
  if (!communication.is_object() || !communication.contains("ranks")) return Json::array();
  return communication["ranks"].is_array() ? communication["ranks"] : Json::array();
}

double number_in(const Json& rank, const char* key) {
  return rank.is_object() && rank.contains(key) && rank[key].is_number() ? rank[key].get<double>() : 0;
}

std::string name_in(const Json& ranks, std::size_t number) {
  const std::string name = fmt::format("rank {}", number);
  for (const Json& rank : ranks) {
    if (!rank.is_object() || !rank.contains("host") || !rank.contains("rank") || rank["rank"] != number) continue;
    const Json& host = rank["host"];
    return host.is_string() && host != name ? name + " · " + host.get<std::string>() : name;
  }
  return name;
}

const Points* points_of(const Facts& facts, std::size_t rank, const char* what) {
  const auto found = facts.metrics.find(fmt::format("ranks/{}/{}", rank, what));
  return found == facts.metrics.end() ? nullptr : &found->second;
}

// What a rank did in each epoch, by the metrics of the run; as many as all of them have.
std::vector<RankLane> lanes_of(const Facts& facts, const Json& ranks) {
  std::vector<RankLane> lanes;
  std::size_t epochs = SIZE_MAX;
  for (std::size_t rank = 0; rank <= kShownRanks && lanes.size() < kShownRanks; ++rank) {  // the first may only record
    const Points *computing = points_of(facts, rank, "computing"), *reading = points_of(facts, rank, "reading"),
                 *waiting = points_of(facts, rank, "waiting");
    if (!computing || !reading || !waiting) continue;
    RankLane lane{name_in(ranks, rank), {}};
    epochs = std::min({epochs, computing->size(), reading->size(), waiting->size()});
    for (std::size_t i = 0; i < epochs; ++i) {
      const auto at = [&](const Points& points) { return std::max(0.0, points[i].second); };
      lane.epochs.push_back({at(*computing), at(*reading), 0, at(*waiting)});
    }
    lanes.push_back(std::move(lane));
  }
  for (RankLane& lane : lanes) lane.epochs.resize(epochs);
  return lanes;
}

// The rank that waits least waits for no other: that long the messages themselves take.
void tell_communication_apart(std::vector<RankLane>& lanes) {
  if (lanes.empty()) return;
  for (std::size_t epoch = 0; epoch < lanes.front().epochs.size(); ++epoch) {
    double least = lanes.front().epochs[epoch].waiting;
    for (const RankLane& lane : lanes) least = std::min(least, lane.epochs[epoch].waiting);
    for (RankLane& lane : lanes) {
      lane.epochs[epoch].communicating = least;
      lane.epochs[epoch].waiting -= least;
    }
  }
}

Table ranks_table(const Json& ranks) {
  Table table;
  table.columns = {{"Rank", false},   {"Threads", true}, {"Steps", true}, {"Seconds", true},
                   {"Batches", true}, {"Waiting", true}, {"Sent", true}};
  for (std::size_t i = 0; i < std::min(ranks.size(), kShownRanks); ++i) {
    const Json& rank = ranks[i];
    const double seconds = number_in(rank, "seconds");
    const auto share = [&](const char* key) { return percent(seconds > 0 ? number_in(rank, key) / seconds : 0, 1); };
    table.rows.push_back({escape(name_in(ranks, static_cast<std::size_t>(number_in(rank, "rank")))),
                          count(number_in(rank, "threads")), count(number_in(rank, "steps")),
                          fmt::format("{:.1f}", seconds), share("reading"), share("waiting"),
                          bytes(static_cast<std::uint64_t>(std::max(0.0, number_in(rank, "bytes_sent"))))});
  }
  return table;
}

}  // namespace

std::string ranks_part(const Facts& facts) {
  if (!facts.training) return "";
  const Json ranks = ranks_in(facts);
  std::vector<RankLane> lanes = lanes_of(facts, ranks);
  tell_communication_apart(lanes);
  std::string out = timeline_svg(lanes);
  if (ranks.size() > kShownRanks)
    out += fmt::format("<p class=\"soft\">The first {} of {} ranks.</p>\n", kShownRanks, ranks.size());
  if (!ranks.empty()) out += to_html(ranks_table(ranks));
  return out.empty() ? "" : "<h3>Ranks</h3>\n<div class=\"scroll\">" + out + "</div>\n";
}

}  // namespace mlx::report
