// HTTP requests over libcurl. It is in a module (lib/mlx/mlx_http.so), so that commands without a network do not load
// it. Used by client.cpp. Thread-safe: each thread's request has a connection of its own, and
// connections are kept for the next.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/interruption.h"

namespace mlx::store::s3 {

struct HttpOptions {
  std::string ca_bundle;  // "" for the system's
  long stall_seconds = 30;
  const Interruption* interruption = &Interruption::never();
};

struct HttpRequest {
  std::string method;  // GET, HEAD, PUT
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;
  ByteView body;                            // PUT
  std::function<void(std::uint64_t)> sent;  // bytes of the body sent so far; it falls when sending starts again
  std::uint64_t max_body = 0;               // of the answer; more of it is an error
};

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  Bytes body;
};

// Why a request got no whole answer, and whether another attempt may help (not if a name does not resolve or a
// certificate is not trusted).
struct HttpFailure {
  std::string message;  // "could not connect to server"
  bool lasting = false;
};

class HttpClient {
 public:
  explicit HttpClient(const Interruption& interruption = Interruption::never()) : interruption_(interruption) {}
  virtual ~HttpClient() = default;
  const Interruption& interruption() const { return interruption_; }
  // nullopt and `failure` if there is no whole answer. kInterrupted after an interruption.
  virtual std::optional<HttpResponse> perform(const HttpRequest& request, HttpFailure& failure) = 0;

 private:
  const Interruption& interruption_;
};

// kMissing if the module cannot be opened.
std::unique_ptr<HttpClient> open_http(const HttpOptions& options);

}  // namespace mlx::store::s3
