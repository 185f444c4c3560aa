// HTTP serving of models: the KServe Open Inference Protocol v2 in JSON with its generate extension, dynamic batching,
// health and Prometheus metrics. Sources: KServe "Open Inference Protocol" v2 (REST), Triton's generate and model
// repository extensions, Prometheus text exposition format 0.0.4, RFC 9110/9112, WHATWG server-sent events.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/interruption.h"
#include "infer/model.h"

namespace mlx::serve {

// A model and what requests call it. Several may share one infer::Model.
struct ModelSpec {
  std::string name, version;  // "clf", "2"
  std::string digest;
  std::shared_ptr<const infer::Model> model;
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;        // 0: any free one, told through `listening`
  std::string program_version;      // of mlx, for GET /v2
  std::int64_t max_batch = 64;      // examples computed together
  std::int64_t max_body = 8 << 20;  // bytes; 413 beyond
  int max_connections = 512;        // 503 beyond
  int queue_limit = 1024;           // waiting examples or texts of a model; 503 with Retry-After beyond
  std::int64_t ngram = 0;           // texts speculate with runs of so many tokens (infer/speculation.h); 0: they do not
  double idle_timeout = 30;   // seconds; also for a request's head and for its body, from the first byte to the last
  double drain_timeout = 10;  // seconds that requests in flight may take once it is told to stop
  std::function<void(std::uint16_t port)> listening;        // called once the socket listens
  std::function<void(const std::string& line)> access_log;  // may be empty
};

// Serves until `stop` is raised (looked at twice a second or faster), then finishes what is in flight. The names
// differ. Throws kConflict for a busy port, kUsage for a model that cannot be served; both before it listens.
void serve(const std::vector<ModelSpec>& models, const ServerOptions& options, const Interruption& stop);

}  // namespace mlx::serve
