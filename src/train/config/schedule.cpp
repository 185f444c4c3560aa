// Schedules as functions of the progress after warmup.
#include "train/config/schedule.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>

#include "base/error.h"
#include "base/json.h"

namespace mlx::train {
namespace {

constexpr double kMaxEpochs = 1e6;

// The position of a step.
struct Position {
  double done = 0;   // share of the steps after warmup, 0 to 1
  double epoch = 0;  // from the start, with its fraction
};

// From 1 to `final` along half a cosine (Loshchilov & Hutter 2017, without restarts).
double cosine_to(double final, double done) {
  return final + (1 - final) * (0.5 * (1 + std::cos(std::numbers::pi * done)));
}

double constant(const Schedule&, const Position&) {
  return 1;
}
double cosine(const Schedule& s, const Position& at) {
  return cosine_to(s.final, at.done);
}
double linear(const Schedule& s, const Position& at) {
  return 1 - (1 - s.final) * at.done;
}
double step(const Schedule& s, const Position& at) {
  const auto passed = std::ranges::count_if(s.milestones, [&](double epoch) { return at.epoch >= epoch; });
  return std::pow(s.gamma, static_cast<double>(passed));
}
// Smith 2018, "A disciplined approach to neural network hyper-parameters": up from a 25th over the first 30 %, then
// down along a cosine. The momentum stays as it is.
double one_cycle(const Schedule& s, const Position& at) {
  constexpr double kStart = 1.0 / 25, kRise = 0.3;
  if (at.done < kRise) return kStart + (1 - kStart) * at.done / kRise;
  return cosine_to(s.final, (at.done - kRise) / (1 - kRise));
}

struct ScheduleRow {
  const char* name;
  double (*factor)(const Schedule& schedule, const Position& at);  // of the highest rate
  bool has_final, has_milestones;
};
constexpr ScheduleRow kSchedules[] = {
    {"constant", constant, false, false}, {"cosine", cosine, true, false},       {"linear", linear, true, false},
    {"step", step, false, true},          {"one_cycle", one_cycle, true, false},
};

const ScheduleRow& schedule_row(const std::string& name) {
  for (const ScheduleRow& row : kSchedules) {
    if (name == row.name) return row;
  }
  fail(ErrorKind::kUsage, "unknown schedule '{}'", name);
}

void refuse(const TomlReader& train, const char* key, const std::string& name, const char* whose) {
  if (train.has(key)) train.fail_at(key, fmt::format("schedule '{}' has no such key; it belongs to {}", name, whose));
}

}  // namespace

Schedule read_schedule(TomlReader& train, double default_rate, std::int64_t epochs) {
  Schedule out;
  out.rate = train.number("learning_rate", 0, 1000, default_rate);
  std::vector<std::string> names;
  for (const ScheduleRow& row : kSchedules) names.emplace_back(row.name);
  out.name = train.one_of("schedule", names, out.name);
  out.warmup = train.number("warmup", 0, static_cast<double>(epochs), 0);
  const ScheduleRow& row = schedule_row(out.name);
  if (row.has_final) {
    out.final = train.number("final", 0, 1, 0);
  } else {
    refuse(train, "final", out.name, "cosine, linear and one_cycle");
  }
  if (row.has_milestones) {
    out.milestones = train.numbers("milestones", 0, kMaxEpochs);
    out.gamma = train.number("gamma", 0, 1, out.gamma);
    if (out.milestones.empty() || !std::ranges::is_sorted(out.milestones, std::less_equal<>()))
      train.fail_at("milestones", "expected ascending epochs, such as [30, 60, 80]");
  } else {
    refuse(train, "milestones", out.name, "step");
    refuse(train, "gamma", out.name, "step");
  }
  return out;
}

void write_schedule(const Schedule& schedule, Json& train) {
  train["learning_rate"] = schedule.rate;
  train["schedule"] = schedule.name;
  train["warmup"] = schedule.warmup;
  if (schedule.final != 0) train["final"] = schedule.final;
  if (!schedule.milestones.empty()) train["milestones"] = schedule.milestones;
  if (schedule.gamma != Schedule{}.gamma) train["gamma"] = schedule.gamma;
}

double learning_rate_at(const Schedule& schedule, std::int64_t step, std::int64_t steps_per_epoch, std::int64_t total) {
  const ScheduleRow& row = schedule_row(schedule.name);
  const double warmup = schedule.warmup * static_cast<double>(steps_per_epoch), at = static_cast<double>(step);
  Position position;
  position.epoch = at / static_cast<double>(steps_per_epoch);
  if (at < warmup) return schedule.rate * row.factor(schedule, position) * (at + 1) / (warmup + 1);
  position.done = (at - warmup) / std::max(1.0, static_cast<double>(total) - warmup);
  return schedule.rate * row.factor(schedule, position);
}

}  // namespace mlx::train
