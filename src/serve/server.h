// HTTP serving of one model: the KServe Open Inference Protocol v2 in JSON, dynamic batching, health and Prometheus
// metrics. Sources: KServe "Open Inference Protocol" v2 (REST), Prometheus text exposition format 0.0.4, RFC 9110/9112.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/table.h"
#include "nn/model.h"

namespace mlx::serve {

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;  // 0: any free one, told through `listening`
  std::string name, version;  // of the model: "clf", "2"
  std::string digest;
  std::string program_version;      // of mlx, for GET /v2
  std::int64_t max_batch = 64;      // examples computed together
  std::int64_t max_body = 8 << 20;  // bytes; 413 beyond
  int max_connections = 512;        // 503 beyond
  int queue_limit = 1024;           // waiting examples; 503 with Retry-After beyond
  double idle_timeout = 30;  // seconds; also for a request's head and for its body, from the first byte to the last
  kernels::Level level = kernels::Level::kOneDnn;
  std::function<void(std::uint16_t port)> listening;        // called once the socket listens
  std::function<void(const std::string& line)> access_log;  // may be empty
};

// Serves until `stop` is set (looked at twice a second or faster), then finishes what is in flight. Throws kConflict
// for a busy port.
void serve(const nn::Model& model, const ServerOptions& options, Pool& pool, const std::atomic<int>& stop);

}  // namespace mlx::serve
