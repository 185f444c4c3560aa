// A rank's own time is that in which it waits for no other rank: what makes others wait for it.
#include "train/loop/rank_meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/json.h"
#include "base/process_use.h"
#include "dist/collectives.h"
#include "dist/pace.h"

namespace mlx::train {
namespace {

double own_time(const RankFigures& rank) {
  return std::max(0.0, rank.seconds - rank.waiting);
}

double quotient(double a, double b) {
  return b > 0 ? a / b : 0;
}

std::vector<RankFigures> difference(const std::vector<RankFigures>& before, std::vector<RankFigures> now) {
  for (std::size_t i = 0; i < std::min(before.size(), now.size()); ++i) {
    const RankFigures& from = before[i];
    RankFigures& to = now[i];
    to.steps -= from.steps, to.units -= from.units, to.bytes_sent -= from.bytes_sent;
    to.seconds -= from.seconds, to.reading -= from.reading, to.waiting -= from.waiting;
    to.exchanging -= from.exchanging, to.cpu -= from.cpu;
  }
  return now;
}

struct Overall {
  std::size_t slowest = 0;
  double imbalance = 1, waiting_share = 0, bytes_per_second = 0;
};

Overall overall(const std::vector<RankFigures>& ranks) {
  Overall out;
  double seconds = 0, waiting = 0, bytes_per_second = 0;
  std::vector<double> own;
  for (const RankFigures& rank : ranks) {
    seconds += rank.seconds, waiting += rank.waiting;
    bytes_per_second += quotient(static_cast<double>(rank.bytes_sent), rank.seconds);
    own.push_back(own_time(rank));
  }
  out.slowest = static_cast<std::size_t>(std::ranges::max_element(own) - own.begin());
  const double longest = own[out.slowest];
  own.erase(own.begin() + static_cast<std::ptrdiff_t>(out.slowest));
  if (const double usual = dist::median(std::move(own)); usual > 0) out.imbalance = longest / usual;
  out.waiting_share = quotient(waiting, seconds);
  out.bytes_per_second = bytes_per_second;
  return out;
}

}  // namespace

Json to_json(const RankFigures& rank) {
  return {{"bytes_sent", rank.bytes_sent},
          {"cpu", rank.cpu},
          {"exchanging", rank.exchanging},
          {"micro_batches", rank.micro_batches},
          {"name", rank.name},
          {"reading", rank.reading},
          {"seconds", rank.seconds},
          {"steps", rank.steps},
          {"threads", rank.threads},
          {"units", rank.units},
          {"waiting", rank.waiting}};
}

RankFigures figures_from(const Json& json) {
  const auto integer = [&](const char* key) { return json_int(json, key, "a rank's figures"); };
  const auto number = [&](const char* key) { return json_number(json, key, "a rank's figures"); };
  RankFigures out;
  out.name = json_string(json, "name", "a rank's figures");
  out.threads = integer("threads"), out.steps = integer("steps"), out.units = integer("units");
  out.bytes_sent = integer("bytes_sent"), out.micro_batches = integer("micro_batches");
  out.seconds = number("seconds"), out.reading = number("reading"), out.waiting = number("waiting");
  out.exchanging = number("exchanging"), out.cpu = number("cpu");
  return out;
}

std::int64_t number_of(const RankFigures& rank) {
  constexpr std::string_view kRank = "rank ";
  std::int64_t out = 0;
  for (std::size_t at = kRank.size(); at < rank.name.size() && rank.name[at] >= '0' && rank.name[at] <= '9'; ++at)
    out = 10 * out + (rank.name[at] - '0');
  return out;
}

RankMeter::RankMeter(const dist::Communicator& ranks, const char* unit, int threads) : ranks_(ranks) {
  figures_.name = ranks.name();
  figures_.threads = threads;
  ranks.activity().unit = unit;
}

void RankMeter::begin_step() {
  step_began_ = seconds_now();
}

void RankMeter::batch_made() {
  batch_made_ = seconds_now();
}

void RankMeter::end_step(std::int64_t units, const dist::GradientSum::Cost& cost) {
  ++figures_.steps;
  figures_.units += units;
  const double now = seconds_now();
  figures_.seconds += now - step_began_;
  figures_.reading += batch_made_ - step_began_;
  step_began_ = batch_made_ = now;
  figures_.waiting = cost.waiting;
  figures_.exchanging = cost.exchanging;
  figures_.bytes_sent = cost.bytes_sent;
  dist::Activity& activity = ranks_.activity();
  activity.units = figures_.units;
  activity.bytes_sent = figures_.bytes_sent;
  activity.seconds = figures_.seconds;
  activity.reading = figures_.reading;
  activity.waiting = figures_.waiting;
}

RankFigures RankMeter::figures() const {
  RankFigures out = figures_;
  out.cpu = cpu_seconds();
  return out;
}

std::vector<RankFigures> gather(dist::Communicator& ranks, const RankFigures& own) {
  std::vector<RankFigures> out;
  for (const Bytes& bytes : dist::gather(ranks, 0, as_bytes(canonical(to_json(own)))))
    out.push_back(figures_from(parse_json(as_text(bytes), "a rank's figures")));
  return out;
}

std::vector<std::pair<std::string, double>> rank_metrics(const std::vector<RankFigures>& before,
                                                         const std::vector<RankFigures>& now) {
  if (now.empty()) return {};
  const std::vector<RankFigures> ranks = difference(before, now);
  const Overall all = overall(ranks);
  std::vector<std::pair<std::string, double>> out{{"ranks/slowest", static_cast<double>(number_of(ranks[all.slowest]))},
                                                  {"ranks/imbalance", all.imbalance},
                                                  {"ranks/communication_share", all.waiting_share},
                                                  {"ranks/bytes_per_second", all.bytes_per_second}};
  for (std::size_t i = 0; i < std::min(ranks.size(), kRanksInMetrics); ++i) {
    const RankFigures& rank = ranks[i];
    const std::string own = fmt::format("ranks/{}/", number_of(rank));
    out.emplace_back(own + "computing", std::max(0.0, own_time(rank) - rank.reading));
    out.emplace_back(own + "reading", rank.reading);
    out.emplace_back(own + "waiting", rank.waiting);
    out.emplace_back(own + "micro_batches", static_cast<double>(rank.micro_batches));
  }
  return out;
}

void add_ranks(Json& communication, const std::vector<RankFigures>& ranks, const std::string& unit) {
  if (ranks.empty()) return;
  const std::string rate = unit + "_per_second";
  Json list = Json::array(), hosts = Json::array();
  for (std::size_t i = 0; i < std::min(ranks.size(), kRanksInSummary); ++i) {
    const RankFigures& rank = ranks[i];
    const std::string host = dist::host_of(rank.name);
    const double per_second = quotient(static_cast<double>(rank.units), rank.seconds);
    list.push_back({{"bytes_sent", rank.bytes_sent},
                    {"cpu_seconds", rank.cpu},
                    {"host", host},
                    {"micro_batches", rank.micro_batches},
                    {"rank", number_of(rank)},
                    {"reading", rank.reading},
                    {"seconds", rank.seconds},
                    {"steps", rank.steps},
                    {"threads", rank.threads},
                    {"waiting", rank.waiting},
                    {"waiting_share", quotient(rank.waiting, rank.seconds)},
                    {rate, per_second}});
    if (hosts.empty() || hosts.back()["host"] != host)
      hosts.push_back({{"bytes_sent", 0}, {"host", host}, {"ranks", 0}, {rate, 0.0}});
    Json& own = hosts.back();
    own["ranks"] = own["ranks"].get<int>() + 1;
    own["bytes_sent"] = own["bytes_sent"].get<std::int64_t>() + rank.bytes_sent;
    own[rate] = own[rate].get<double>() + per_second;
  }
  const Overall all = overall(ranks);
  communication["hosts"] = std::move(hosts);
  communication["imbalance"] = all.imbalance;
  communication["ranks"] = std::move(list);
  communication["slowest"] = number_of(ranks[all.slowest]);
  communication["waiting_share"] = all.waiting_share;
}

}  // namespace mlx::train
