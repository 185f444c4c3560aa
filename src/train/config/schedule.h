// The learning rate over a training; one row for each schedule in schedule.cpp. Part of [train] in train.toml and of a
// run's key. A rate depends on the step alone, so resuming needs only the step.
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
  double warmup = 0;               // epochs of linear rise before the schedule starts
  double final = 0;                // cosine, linear, one_cycle: the last rate as a share of the highest
  std::vector<double> milestones;  // step: epochs after which the rate is multiplied by gamma, ascending
  double gamma = 0.1;
};

// Reads learning_rate, schedule, warmup, and the keys of the named schedule; refuses keys of others.
Schedule read_schedule(TomlReader& train, double default_rate, std::int64_t epochs);
void write_schedule(const Schedule& schedule, Json& train);  // the same keys; its own only if not the default
double learning_rate_at(const Schedule& schedule, std::int64_t step, std::int64_t steps_per_epoch, std::int64_t total);

}  // namespace mlx::train
