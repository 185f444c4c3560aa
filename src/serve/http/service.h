// What the server answers: finds a request's route among those of all protocols. Knows requests and exchanges, nothing
// of sockets.
//
// Used by connection.cpp on the server's one I/O thread; what takes long is done on threads of the models.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "serve/models.h"
#include "serve/protocols/protocol.h"

namespace mlx::serve {

class Service {
 public:
  // Gets every model ready before it returns.
  Service(const std::vector<ModelSpec>& models, const ServerOptions& options);

  // Whether a request that brings this key ("" for none) is answered. Throws RefusedRequest if not.
  ApiKeyPtr admit(const std::string& target, std::string_view key);
  // Whether a request with this key (null: none is needed) is to send a body, as large as the options allow.
  bool takes_body(const std::string& method, const std::string& target, const ApiKey* key) const;
  // Whether a body of curl's own type, application/x-www-form-urlencoded, is read as JSON here, as its protocol's other
  // servers do. Only for what comes from no page: a browser asks for leave before it sends JSON elsewhere, and never
  // before it sends a form.
  static bool takes_forms(const std::string& target);
  // Answers once: before it returns, or later from another thread.
  void answer(const Request& request, const ExchangePtr& exchange);
  // The body of a reply that says why there is no answer, as the protocol of the path has it.
  static std::string error_body(const std::string& target, const Reply& reply);
  // See Models.
  std::shared_ptr<ServedModel> replace(ModelSpec spec) { return models_.replace(std::move(spec)); }
  void drain() { ready_ = false; }     // from here on the server says that it is not ready
  void finish() { models_.finish(); }  // answers all that waits; nothing is asked after this
  Metrics& metrics() { return metrics_; }
  Access& access() { return access_; }

 private:
  struct Found {
    const Route* route = nullptr;  // null: there is nothing
    ServedModel* model = nullptr;
    std::string why{}, code{};  // there is nothing
  };
  static Found find(const std::string& target, const VisibleModels& models);

  const ServerOptions& options_;
  Metrics metrics_;
  Models models_;
  Access access_;
  std::atomic<bool> ready_{true};
};

}  // namespace mlx::serve
