// What is recorded of a training's ranks.
#include <doctest/doctest.h>

#include <chrono>
#include <map>
#include <stdexcept>
#include <thread>

#include "../dist/ranks.h"
#include "base/json.h"
#include "train/loop/profile.h"
#include "train/loop/rank_meter.h"

namespace mlx::train {
namespace {

RankFigures rank(const std::string& name, double seconds, double waiting) {
  RankFigures out;
  out.name = name;
  out.threads = 2, out.steps = 10, out.units = 100, out.bytes_sent = 1000;
  out.seconds = seconds, out.reading = 1, out.waiting = waiting, out.cpu = 3;
  return out;
}

TEST_CASE("ranks: an epoch's metrics are what happened since the one before") {
  const std::vector<RankFigures> first{rank("rank 0 on a", 10, 5), rank("rank 1 on b", 10, 0)};
  std::vector<RankFigures> second = first;
  for (RankFigures& of : second) of.seconds += 4, of.reading += 1, of.bytes_sent += 400;
  second[1].waiting += 2;
  const auto told = rank_metrics(first, second);
  const std::map<std::string, double> metrics(told.begin(), told.end());
  CHECK(metrics.at("ranks/slowest") == 0);
  CHECK(metrics.at("ranks/imbalance") == 2);
  CHECK(metrics.at("ranks/communication_share") == 0.25);
  CHECK(metrics.at("ranks/bytes_per_second") == 200);
  CHECK(metrics.at("ranks/0/computing") == 3);
  CHECK(metrics.at("ranks/1/computing") == 1);
  CHECK(metrics.at("ranks/1/reading") == 1);
  CHECK(metrics.at("ranks/1/waiting") == 2);
  CHECK(rank_metrics({}, {}).empty());
  const std::vector<RankFigures> many(1000, first[0]);
  CHECK(rank_metrics({}, many).size() == 4 + 4 * kRanksInMetrics);
}

TEST_CASE("ranks: the summary has each rank and each host") {
  Json out = Json::object();
  add_ranks(out, {rank("rank 0 on a", 10, 5), rank("rank 1 on b", 10, 0), rank("rank 2 on b", 10, 4)}, "images");
  CHECK(out["slowest"] == 1);
  CHECK(out["imbalance"] == 2);
  CHECK(out["waiting_share"].get<double>() == doctest::Approx(0.3));
  REQUIRE(out["ranks"].size() == 3);
  CHECK(out["ranks"][2]["rank"] == 2);
  CHECK(out["ranks"][2]["host"] == "b");
  CHECK(out["ranks"][2]["images_per_second"] == 10);
  CHECK(out["ranks"][0]["waiting_share"] == 0.5);
  REQUIRE(out["hosts"].size() == 2);
  CHECK(out["hosts"][1]["ranks"] == 2);
  CHECK(out["hosts"][1]["images_per_second"] == 20);
  CHECK(out["hosts"][1]["bytes_sent"] == 2000);
  Json none = Json::object();
  add_ranks(none, {}, "images");
  CHECK(none.empty());
}

// Throws, because doctest's own checks are not for threads.
void require(bool holds) {
  if (!holds) throw std::runtime_error("it does not hold");
}

TEST_CASE("ranks: a meter counts its steps, and rank 0 gets the figures of all") {
  dist::on_ranks(3, [](dist::Communicator& ranks) {
    RankMeter meter(ranks, "rows", 4);
    for (int step = 1; step <= 2; ++step) {
      meter.begin_step();
      meter.batch_made();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      meter.end_step(8 + ranks.rank(), {.bytes_sent = 100 * step, .exchanging = 0.5, .waiting = 0.001 * step});
    }
    require(ranks.activity().units == 2 * (8 + ranks.rank()));
    require(ranks.activity().bytes_sent == 200);
    require(ranks.activity().seconds >= 0.004);
    require(std::string(ranks.activity().unit) == "rows");
    const std::vector<RankFigures> all = gather(ranks, meter.figures());
    if (ranks.rank() > 0) return require(all.empty());
    require(all.size() == 3 && all[2].name == "rank 2" && all[2].units == 20);
    require(all[2].waiting == 0.002 && all[2].threads == 4 && all[2].steps == 2);
  });
}

TEST_CASE("ranks: a trace has a process for each, and what runs beside its operations in a thread of its own") {
  Profile profile;
  profile.ranks = {{.name = "rank 0 on a", .trace = {{"step 2", "step", 100.5, 0.25}, {"conv", "conv2d", 100.5, 0.1}}},
                   {.name = "rank 1 on b", .trace = {{"bucket 0", "exchange", 100.25, 0.125, true}}}};
  const Json events = parse_json(chrome_trace(profile), "trace");
  std::map<int, std::string> names;
  std::vector<Json> spans;
  for (const Json& event : events) {
    if (event["name"] == "process_name") names[event["pid"].get<int>()] = event["args"]["name"].get<std::string>();
    if (event["ph"] == "X") spans.push_back(event);
  }
  CHECK(names == std::map<int, std::string>{{1, "rank 0 on a"}, {2, "rank 1 on b"}});
  REQUIRE(spans.size() == 3);
  CHECK(spans[0]["ts"] == 250000.0);
  CHECK(spans[0]["pid"] == 1);
  CHECK(spans[0]["tid"] == 1);
  CHECK(spans[2]["ts"] == 0.0);
  CHECK(spans[2]["dur"] == 125000.0);
  CHECK(spans[2]["pid"] == 2);
  CHECK(spans[2]["tid"] == 2);
  profile.ranks.clear();
  profile.trace = {{"step 2", "step", 100.5, 0.25}};
  CHECK(parse_json(chrome_trace(profile), "trace")[0]["args"]["name"] == "mlx train");
  // Exchanges that overlap are in different threads.
  profile.trace = {
      {"bucket 0", "exchange", 1, 2, true}, {"bucket 1", "exchange", 2, 2, true}, {"bucket 0", "exchange", 3, 1, true}};
  std::string threads;
  for (const Json& event : parse_json(chrome_trace(profile), "trace"))
    if (event["ph"] == "X") threads += event["tid"].dump();
  CHECK(threads == "232");
}

TEST_CASE("ranks: a profile is the same after it was sent to another process") {
  Profile profile;
  profile.steps = 3, profile.seconds = 1.5, profile.batch_seconds = 0.25, profile.waiting = 0.125;
  profile.trace = {{"step 2", "step", 100.5, 0.25}};
  profile.ranks = {{.name = "rank 1 on b", .steps = 3, .bytes_sent = 7, .seconds = 1, .trace = profile.trace}};
  graph::NodeTime& time = profile.operations.emplace_back();
  time.name = "conv", time.op = "conv2d", time.kernel = "ref", time.calls = 3, time.seconds = 0.5;
  CHECK(canonical(to_json(profile_from(to_json(profile)))) == canonical(to_json(profile)));
  CHECK(canonical(to_json(profile)).find("conv2d") != std::string::npos);
}

}  // namespace
}  // namespace mlx::train
