// What a server counts about itself, as Prometheus text (exposition format 0.0.4). Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace mlx::serve {

// Cumulative histogram over fixed upper bounds.
struct Histogram {
  std::vector<double> bounds;
  std::vector<std::uint64_t> counts = std::vector<std::uint64_t>(bounds.size() + 1);
  double sum = 0;
  void add(double value);
};

class Metrics {
 public:
  void request(int status);
  void inference(double seconds);  // from the last byte of the request to its answer
  void batch(std::int64_t examples, double seconds);
  void connections(int change);

  struct Info {
    std::string model, version, digest, precision;
    std::int64_t queued = 0;
  };
  std::string text(const Info& info) const;

 private:
  mutable std::mutex mutex_;
  std::map<int, std::uint64_t> by_status_;
  std::uint64_t examples_ = 0;
  int connections_ = 0;
  double compute_seconds_ = 0;
  Histogram latency_{{0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5}};
  Histogram batches_{{1, 2, 4, 8, 16, 32, 64, 128, 256}};
};

}  // namespace mlx::serve
