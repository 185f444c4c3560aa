// What the server answers: routes, errors as JSON, metrics. Knows requests and replies, nothing of sockets.
//
// Used by connection.cpp on the server's one I/O thread; inference is handed to the batcher's thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "serve/batcher.h"
#include "serve/inference.h"
#include "serve/metrics.h"
#include "serve/server.h"

namespace mlx::serve {

struct Request {
  std::string method, target, body;
};

struct Reply {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  std::string headers;  // further lines, each with its CRLF
};

Reply error_reply(int status, std::string_view why, std::string headers = {});

class Service {
 public:
  Service(const nn::Model& model, const ServerOptions& options, Pool& pool);

  bool takes_body(const std::string& method, const std::string& target) const;
  // Calls `reply` once: before it returns, or later from the batcher's thread.
  void answer(const Request& request, const std::function<void(Reply)>& reply);
  void drain() { ready_ = false; }      // from here on the server says that it is not ready
  void finish() { batcher_.finish(); }  // answers all that waits; nothing is asked after this
  Metrics& metrics() { return metrics_; }

 private:
  enum class Route { kNone, kLive, kReady, kServer, kModel, kModelReady, kInfer, kMetrics };
  Route route(const std::string& target, std::string& why) const;
  Reply answer_now(Route route) const;
  void infer(const Request& request, const std::function<void(Reply)>& reply);

  const ServerOptions& options_;
  std::string precision_;
  Predictor predictor_;
  Signature signature_;
  Metrics metrics_;
  std::atomic<bool> ready_{false};
  Batcher batcher_;
};

}  // namespace mlx::serve
