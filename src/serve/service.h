// What the server answers: routes, errors as JSON, metrics. Knows requests and exchanges, nothing of sockets.
//
// Used by connection.cpp on the server's one I/O thread; what takes long is done on threads of the models.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "serve/exchange.h"
#include "serve/metrics.h"
#include "serve/served_model.h"
#include "serve/server.h"

namespace mlx::serve {

class Service {
 public:
  // Gets every model ready before it returns.
  Service(const std::vector<ModelSpec>& models, const ServerOptions& options);

  // Whether a request is to send a body, as large as the options allow.
  bool takes_body(const std::string& method, const std::string& target) const;
  // Answers once: before it returns, or later from another thread.
  void answer(const Request& request, const ExchangePtr& exchange);
  void drain() { ready_ = false; }  // from here on the server says that it is not ready
  void finish();                    // answers all that waits; nothing is asked after this
  Metrics& metrics() { return metrics_; }

 private:
  struct Route;
  struct Found {
    const Route* route = nullptr;  // null: there is nothing
    ServedModel* model = nullptr;  // of routes below /v2/models/NAME
    std::string why;               // there is nothing
  };
  static const Route kRoutes[];

  Found find(const std::string& target) const;
  ServedModel* model_named(const std::string& path) const;
  void live(const Found& found, const Request& request, const ExchangePtr& exchange);
  void ready(const Found& found, const Request& request, const ExchangePtr& exchange);
  void server(const Found& found, const Request& request, const ExchangePtr& exchange);
  void index(const Found& found, const Request& request, const ExchangePtr& exchange);
  void metrics_text(const Found& found, const Request& request, const ExchangePtr& exchange);
  void model(const Found& found, const Request& request, const ExchangePtr& exchange);
  void model_ready(const Found& found, const Request& request, const ExchangePtr& exchange);
  void infer(const Found& found, const Request& request, const ExchangePtr& exchange);
  void generate(const Found& found, const Request& request, const ExchangePtr& exchange);
  void generate_stream(const Found& found, const Request& request, const ExchangePtr& exchange);

  const ServerOptions& options_;
  Metrics metrics_;
  std::vector<std::unique_ptr<ServedModel>> models_;
  std::atomic<bool> ready_{false};
};

}  // namespace mlx::serve
