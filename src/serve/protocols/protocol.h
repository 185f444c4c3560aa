// What a server answers: each protocol is one file, whose routes and form of errors are a row of kProtocols
// (http/service.cpp).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "serve/exchange.h"
#include "serve/metrics.h"
#include "serve/models.h"
#include "serve/options.h"

namespace mlx::serve {

// A request, and what answers it.
struct Asked {
  const VisibleModels& models;
  Metrics& metrics;
  const ServerOptions& options;
  const Request& request;
  const ExchangePtr& exchange;
  bool ready = true;             // false: the server stops
  bool locked = false;           // keys are needed, and the request has brought none (Need::kOptional)
  ServedModel* model = nullptr;  // that the path names
};

struct Route {
  // kPath: the path itself. kModel: behind the protocol's `models`, a model's name and this.
  enum class At : std::uint8_t { kPath, kModel };
  At at = At::kPath;
  std::string_view path;
  const char* allowed = "GET, HEAD";  // methods
  bool body = false;
  Need need = Need::kInfer;
  void (*answer)(const Asked& asked) = nullptr;  // throws Error for a bad request, and then has not answered
};

struct Protocol {
  std::string_view below;   // errors of all paths that begin with this are in its form
  std::string_view models;  // "/v2/models/"
  std::span<const Route> routes;
  std::string (*error_body)(const Reply& reply) = nullptr;
  bool forms = false;  // bodies of the type of forms are JSON; see Service::takes_forms()
};

extern const Protocol kOpenInference, kOpenAi, kAnthropic, kOllama, kPage;

}  // namespace mlx::serve
