// Fixtures for training without a repository: a sink that keeps everything in memory, and a config.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/path.h"
#include "train/config/config.h"
#include "train/loop/run_sink.h"

namespace mlx::train::test {

struct MemorySink : RunSink {
  void begin(std::int64_t step) override {
    began.push_back(step);
    for (auto& [name, series] : metrics) series.erase(series.upper_bound(step), series.end());
  }
  void log_metric(std::int64_t step, std::string name, double value) override { metrics[name][step] = value; }
  void end_step() override { ++steps; }
  void save_checkpoint(CheckpointState state, bool) override {
    saved.push_back(state.step);
    complete(state);
    last = std::move(state);
  }
  bool wait_for_checkpoint() override { return last.has_value(); }
  std::optional<CheckpointState> last_checkpoint() override { return last; }
  void end() override { ++ends; }

  std::vector<std::int64_t> began, saved;
  std::map<std::string, std::map<std::int64_t, double>> metrics;
  std::optional<CheckpointState> last;
  int steps = 0, ends = 0;
};

inline TrainConfig config_of(const std::string& text) {
  const TempFolder folder;
  const std::string file = join_path(folder.path(), "train.toml");
  write_file_atomically(file, text);
  return read_train_config(file);
}

}  // namespace mlx::train::test
