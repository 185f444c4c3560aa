// One self-contained HTML page: how a window of data differs from what a model was trained on. No scripts, no network;
// light and dark by prefers-color-scheme. Used by cmd/monitor.cpp. The same input gives the same bytes.
#pragma once

#include <string>
#include <vector>

#include "monitor/drift.h"

namespace mlx::report {

struct DriftFacts {
  std::string model, digest, data;     // "clf@v2", "new.csv"
  std::string reference, predictions;  // "data/houses@v1:train", "test"
  monitor::Drift drift;
  std::vector<monitor::Stream::Judged> windows;
  bool found = false;  // drift
};
std::string drift_page(const DriftFacts& facts);

}  // namespace mlx::report
