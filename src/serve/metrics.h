// What a server counts about itself and its models, as Prometheus text (exposition format 0.0.4). Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "monitor/live.h"

namespace mlx::serve {

// Cumulative histogram over fixed upper bounds.
struct Histogram {
  std::vector<double> bounds;
  std::vector<std::uint64_t> counts = std::vector<std::uint64_t>(bounds.size() + 1);
  double sum = 0;
  void add(double value);
};

struct ModelCounts {
  std::uint64_t examples = 0, tokens = 0, proposed = 0, accepted = 0, shared = 0, replaced = 0, refused = 0, failed = 0,
                rolled_back = 0;
  double compute_seconds = 0;
  Histogram latency{{0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30}};
  Histogram batches{{1, 2, 4, 8, 16, 32, 64, 128, 256}};
};

// Of one model.
class ModelMetrics {
 public:
  void inference(double seconds);  // from the last byte of the request to its answer
  void batch(std::int64_t examples, double seconds);
  void generated(std::int64_t tokens, double seconds);
  void proposed(std::int64_t tokens, std::int64_t accepted);  // by speculation
  void shared(std::int64_t tokens);                           // of prompts, that were not computed again
  void replaced();                                            // another version has taken the model's place
  void refused();                                             // another version could not take it
  void failed();       // a request was answered with an error that is the model's fault
  void rolled_back();  // the alias went back from the version
  ModelCounts counts() const;

 private:
  mutable std::mutex mutex_;
  ModelCounts counts_;
};

// One model at one moment.
struct ModelSample {
  std::string model, version, digest, precision;
  std::int64_t queued = 0;
  ModelCounts counts;
  std::optional<monitor::Live::State> drift{};  // of one that is watched
};

// Of the server.
class Metrics {
 public:
  void request(int status);
  void connections(int change);
  std::string text(const std::vector<ModelSample>& models, std::size_t weights_bytes) const;

 private:
  mutable std::mutex mutex_;
  std::map<int, std::uint64_t> by_status_;
  int connections_ = 0;
};

}  // namespace mlx::serve
