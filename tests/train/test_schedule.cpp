// Learning rates by their values, and what is wrong with a schedule's keys.
#include <doctest/doctest.h>

#include "base/error.h"
#include "base/json.h"
#include "train/config/schedule.h"

namespace mlx::train {
namespace {

Schedule read(const std::string& text, std::int64_t epochs = 10) {
  const TomlNode root = parse_toml(text, "train.toml");
  TomlReader reader(root, "train.toml", "[train]");
  const Schedule schedule = read_schedule(reader, 0.1, epochs);
  reader.finish();
  return schedule;
}

// Of 10 epochs of 10 steps.
double rate(const std::string& text, std::int64_t step) {
  return learning_rate_at(read(text), step, 10, 100);
}

std::string refusal(const std::string& text) {
  try {
    read(text);
  } catch (const Error& error) {
    return error.message;
  }
  return "(nothing was refused)";
}

bool says(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

using doctest::Approx;

TEST_CASE("constant, cosine, linear: the rate at the start, in the middle and at the end") {
  CHECK(rate("schedule = 'constant'", 0) == 0.1);
  CHECK(rate("schedule = 'constant'", 99) == 0.1);
  CHECK(rate("", 0) == 0.1);  // cosine
  CHECK(rate("", 50) == Approx(0.05));
  CHECK(rate("", 25) == Approx(0.1 * 0.8535533906));
  CHECK(rate("", 100) == Approx(0.0));
  CHECK(rate("final = 0.2", 50) == Approx(0.06));
  CHECK(rate("final = 0.2", 100) == Approx(0.02));
  CHECK(rate("schedule = 'linear'", 25) == Approx(0.075));
  CHECK(rate("schedule = 'linear'\nfinal = 0.5", 50) == Approx(0.075));
}

TEST_CASE("step: multiplied at each milestone, which may lie inside an epoch") {
  const std::string text = "schedule = 'step'\nmilestones = [3, 7.5]\ngamma = 0.5";
  CHECK(rate(text, 29) == 0.1);
  CHECK(rate(text, 30) == Approx(0.05));
  CHECK(rate(text, 74) == Approx(0.05));
  CHECK(rate(text, 75) == Approx(0.025));
  CHECK(rate("schedule = 'step'\nmilestones = [1]", 99) == Approx(0.01));
}

TEST_CASE("one_cycle: from a 25th up to the rate at 30 %, then down") {
  CHECK(rate("schedule = 'one_cycle'", 0) == Approx(0.004));
  CHECK(rate("schedule = 'one_cycle'", 15) == Approx(0.052));
  CHECK(rate("schedule = 'one_cycle'", 30) == Approx(0.1));
  CHECK(rate("schedule = 'one_cycle'", 65) == Approx(0.05));
  CHECK(rate("schedule = 'one_cycle'\nfinal = 0.1", 100) == Approx(0.01));
}

TEST_CASE("warmup rises linearly before every schedule and shortens it") {
  for (const char* name : {"constant", "cosine", "linear", "one_cycle"}) {
    const std::string text = fmt::format("schedule = '{}'\nwarmup = 2", name);
    const double first = rate(text, 20);  // behind warmup: the schedule's own first rate
    CHECK(first == Approx(std::string(name) == "one_cycle" ? 0.004 : 0.1));
    CHECK(rate(text, 0) == Approx(first / 21));
    CHECK(rate(text, 9) == Approx(first * 10 / 21));
    CHECK(rate(text, 19) == Approx(first * 20 / 21));
  }
  CHECK(rate("warmup = 2", 60) == Approx(0.05));  // half of the 80 steps that are left
  CHECK(rate("schedule = 'step'\nmilestones = [3]\nwarmup = 2", 30) == Approx(0.01));  // epochs count from the start
}

TEST_CASE("a schedule's bad keys are named with file and line") {
  CHECK(says(refusal("\nschedule = 'exponential'"), "train.toml:2"));
  CHECK(says(refusal("schedule = 'constant'\nfinal = 0.1"), "train.toml:2: [train] final"));
  CHECK(says(refusal("schedule = 'cosine'\nmilestones = [3]"), "it belongs to step"));
  CHECK(says(refusal("gamma = 0.5"), "it belongs to step"));
  CHECK(says(refusal("schedule = 'step'"), "milestones"));
  CHECK(says(refusal("schedule = 'step'\nmilestones = []"), "ascending epochs"));
  CHECK(says(refusal("schedule = 'step'\nmilestones = [4, 4]"), "ascending epochs"));
  CHECK(says(refusal("schedule = 'step'\nmilestones = [-1]"), "milestones"));
  CHECK(says(refusal("final = 1.5"), "final"));
  CHECK(says(refusal("warmup = 11"), "warmup"));
  CHECK(says(refusal("learning_rate = 'fast'"), "learning_rate"));
}

TEST_CASE("the key holds what is not the default, and nothing else") {
  Json json = Json::object();
  write_schedule(read(""), json);
  CHECK(canonical(json) == R"({"learning_rate":0.1,"schedule":"cosine","warmup":0.0})");
  json = Json::object();
  write_schedule(read("schedule = 'step'\nmilestones = [3]\ngamma = 0.5"), json);
  CHECK(json.size() == 5);
}

}  // namespace
}  // namespace mlx::train
