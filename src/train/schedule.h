// The learning rate over a training: one row a schedule in schedule.cpp. Part of train.toml's [train] and of a run's
// key; a rate follows from the step alone, so that resuming needs nothing but the step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "base/toml.h"

namespace mlx::train {

struct Schedule {
  std::string name = "cosine";
  double rate = 0.05;              // the highest
  double warmup = 0;               // epochs of linear rise before the schedule begins
  double final = 0;                // cosine, linear, one_cycle: the last rate as a share of the highest
  std::vector<double> milestones;  // step: epochs after which the rate is multiplied by gamma, rising
  double gamma = 0.1;
};

// Reads learning_rate, schedule, warmup, and the keys of the schedule that is named; the others are refused.
Schedule read_schedule(TomlReader& train, double default_rate, std::int64_t epochs);
void write_schedule(const Schedule& schedule, Json& train);  // the same keys; what is not the default of its own ones
// Of step `step`, counted from 0, of `total` steps.
double learning_rate_at(const Schedule& schedule, std::int64_t step, std::int64_t steps_per_epoch, std::int64_t total);

}  // namespace mlx::train
