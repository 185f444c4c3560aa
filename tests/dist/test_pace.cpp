// Rates of ranks, the slow one among them, and the lines that ranks tell their launcher.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "dist/pace.h"
#include "dist/rank_lines.h"

namespace mlx::dist {
namespace {

// A rank that takes so many seconds of its own for a step, in lockstep with others.
struct Worker {
  std::string name;
  double own = 0.1;
  double reading = 0;  // of that
  double cores = 1;    // while it does not wait
};

class Ranks {
 public:
  explicit Ranks(std::vector<Worker> workers) : workers_(std::move(workers)) {}
  // One beat a second of each, for so many seconds; returns what a person would be told.
  std::string run(Pace& pace, int seconds) {
    std::string told;
    double step = 0;
    for (const Worker& worker : workers_) step = std::max(step, worker.own);
    for (int i = 0; i < seconds; ++i, ++second_) {
      const double steps = std::floor(second_ / step);
      for (std::size_t rank = 0; rank < workers_.size(); ++rank) pace.take(beat(rank, steps, step), at(second_));
      if (const std::string text = pace.slow_rank(); !text.empty()) told += text + "|";
    }
    return told;
  }

 private:
  static Pace::Clock::time_point at(int second) { return Pace::Clock::time_point() + std::chrono::seconds(second); }
  Beat beat(std::size_t rank, double steps, double step) const {
    const Worker& worker = workers_[rank];
    Beat out;
    out.rank = static_cast<int>(rank);
    out.name = worker.name;
    out.unit = "images";
    out.step = static_cast<std::int64_t>(steps);
    out.units = 8 * out.step;
    out.bytes_sent = 1000 * out.step;
    out.seconds = steps * step;
    out.waiting = steps * (step - worker.own);
    out.reading = steps * worker.reading;
    out.cpu = steps * worker.own * worker.cores;
    return out;
  }
  std::vector<Worker> workers_;
  int second_ = 0;
};

TEST_CASE("pace: rates are of all ranks and of each host, in its window") {
  Pace pace;
  CHECK(!pace.figures());
  Ranks ranks({{"rank 0 on a", 0.1}, {"rank 1 on b", 0.25}, {"rank 2 on b", 0.2}});
  ranks.run(pace, 1);
  CHECK(!pace.figures());
  ranks.run(pace, 30);
  const auto figures = pace.figures();
  REQUIRE(figures);
  CHECK(figures->unit == "images");
  CHECK(figures->units_per_second == doctest::Approx(96));
  CHECK(figures->bytes_per_second == doctest::Approx(12000));
  REQUIRE(figures->hosts.size() == 2);
  CHECK(figures->hosts[0].first == "a");
  CHECK(figures->hosts[0].second == doctest::Approx(32));
  CHECK(figures->hosts[1].second == doctest::Approx(64));
  CHECK(figures->waiting == doctest::Approx((0.6 + 0 + 0.2) / 3));
  CHECK(figures->slowest == "rank 1 on b");
  CHECK(figures->factor == doctest::Approx(2.5));
}

TEST_CASE("pace: a slow rank is told once, with what it waits for, and no other is") {
  const std::string slow =
      "rank 1 on b is slow: 200 ms a step where the others take 100 ms, waiting for its gradients 50 % "
      "of the time; ";
  for (const auto& [worker, cause] : std::vector<std::pair<Worker, std::string>>{
           {{"rank 1 on b", 0.2, 0, 1}, "it computes all that time"},
           {{"rank 1 on b", 0.2, 0.15, 1}, "it waits for its data"},
           {{"rank 1 on b", 0.2, 0, 0.5}, "it waits for a core: it gets 0.5 of one"}}) {
    Pace pace;
    Ranks ranks({{"rank 0 on a", 0.1}, worker, {"rank 2 on c", 0.1}});
    CHECK(ranks.run(pace, 10) == "");
    CHECK(ranks.run(pace, 3) == slow + cause + "|");
    CHECK(ranks.run(pace, 60) == "");
  }
}

TEST_CASE("pace: ranks of nearly the same speed, and long steps that have just begun, are no news") {
  Pace pace;
  CHECK(Ranks({{"rank 0 on a", 0.1}, {"rank 1 on b", 0.14}}).run(pace, 60) == "");
  // Twice as slow, in steps that are messages for the most part.
  Pace talks;
  for (int second = 0; second < 60; ++second) {
    for (int rank = 0; rank < 2; ++rank) {
      Beat beat;
      beat.rank = rank;
      beat.name = "rank " + std::to_string(rank);
      beat.step = second;
      beat.seconds = second;
      beat.waiting = second * (rank == 0 ? 0.9 : 0.8);
      talks.take(beat, Pace::Clock::time_point() + std::chrono::seconds(second));
    }
    CHECK(talks.slow_rank() == "");
  }
  Pace long_steps;
  Ranks ranks({{"rank 0 on a", 5}, {"rank 1 on b", 10}});
  CHECK(ranks.run(long_steps, 29) == "");
  CHECK(ranks.run(long_steps, 20).starts_with("rank 1 on b is slow: 10 s a step where the other takes 5 s"));
}

TEST_CASE("pace: names and middle values") {
  CHECK(host_of("rank 2 on b.example") == "b.example");
  CHECK(host_of("rank 2") == "rank 2");
  CHECK(median({}) == 0);
  CHECK(median({3, 1}) == 1);
  CHECK(median({3, 1, 2}) == 2);
}

TEST_CASE("pace: lines of ranks are read as they were written, and nothing else is") {
  const auto line = [](std::string text) { return text.substr(0, text.size() - 1); };  // without its end
  const auto said = parse_said(line(said_line(3, "mlx: warning: a  b ")));
  REQUIRE(said);
  CHECK(said->rank == 3);
  CHECK(said->text == "mlx: warning: a  b ");
  CHECK(parse_said(line(said_line(0, "")))->text == "");
  const auto stage = parse_stage(line(stage_line({false, 3, 10, "steps", "training it", "loss 0.1\n\x1f\x1b[1m"})));
  REQUIRE(stage);
  CHECK(!stage->ended);
  CHECK(stage->done == 3);
  CHECK(stage->total == 10);
  CHECK(stage->unit == "steps");
  CHECK(stage->name == "training it");
  CHECK(stage->note == "loss 0.1 ??[1m");
  CHECK(parse_stage(line(stage_line({.ended = true, .unit = "B"})))->ended);
  CHECK(*parse_run(line(run_line("0123456789abcdef"))) == "0123456789abcdef");
  for (const char* other : {"", "x", "\x1emlx-says", "\x1emlx-says -1 x", "\x1emlx-says x y", "\x1emlx-stage on 1",
                            "\x1emlx-stage no 1 2 a", "\x1emlx-run 0123", "\x1emlx-run ../../../../../ab"}) {
    CHECK(!parse_said(other));
    CHECK(!parse_stage(other));
    CHECK(!parse_run(other));
  }
}

}  // namespace
}  // namespace mlx::dist
