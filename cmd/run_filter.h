// Which runs `mlx log --runs` lists, and in which order: conditions on parameters and metrics of a run.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "registry/versions/runs.h"

namespace mlx::cmd {

struct RunFilter {
  std::string status;              // name of a RunStatus; "" for any
  std::vector<std::string> where;  // "valid_accuracy>0.9", "train.optimizer.name=adamw"; all of them hold
  std::string sort;                // a name as in a condition; "" leaves the order
  bool reverse = false;            // the largest first
  bool empty() const { return status.empty() && where.empty() && sort.empty() && !reverse; }
};

// A name is a final metric ("loss"), a parameter by its path in the config ("train.weight_decay") or in the run
// ("train.optimizer.weight_decay"), a metric ("train/loss": its last value), or one of
// command, status, seconds, title. A run without it fulfils no condition over it and comes last. kUsage for a condition
// that cannot be read, and for a name that none of the runs has.
void apply(const RunFilter& filter, registry::Repository& repository, std::vector<registry::Run>& runs);

// What the filter looked at of a run, as text by name, in the order in which it was asked for: so that a listing shows
// why the run is in it. Without what every line shows (command, status, seconds, title).
std::vector<std::pair<std::string, std::string>> looked_at(const RunFilter& filter, registry::Repository& repository,
                                                           const registry::Run& run);

}  // namespace mlx::cmd
