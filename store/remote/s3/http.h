// One HTTP request at a time, over libcurl, which stands in a module (lib/mlx/mlx_http.so) so that commands that talk
// to nobody do not load it. Used by client.cpp. Thread-safe: each thread's request has a connection of its own, and
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

namespace mlx::store::s3 {

struct HttpOptions {
  std::string ca_bundle;  // "" for the system's
  long stall_seconds = 30;
};

struct HttpRequest {
  std::string method;  // GET, HEAD, PUT
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;
  ByteView body;                            // PUT
  std::function<void(std::uint64_t)> sent;  // how much of the body went out; less than before after a new start
  std::uint64_t max_body = 0;               // of the answer; more of it is an error
};

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  Bytes body;
};

// What became of a request that got no whole answer: worth trying again, or not (a name that does not resolve, a
// certificate that is not trusted).
struct HttpFailure {
  std::string message;  // "could not connect to server"
  bool lasting = false;
};

class HttpClient {
 public:
  virtual ~HttpClient() = default;
  // nullopt and `failure` where there is no whole answer. kInterrupted after a signal.
  virtual std::optional<HttpResponse> perform(const HttpRequest& request, HttpFailure& failure) = 0;
};

// kMissing where the module cannot be opened.
std::unique_ptr<HttpClient> open_http(const HttpOptions& options);

}  // namespace mlx::store::s3
