// What is served, and within which limits. Used by the whole layer, and by `mlx serve`, which fills it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "infer/golden.h"
#include "infer/model.h"
#include "monitor/live.h"
#include "serve/access.h"

namespace mlx::serve {

class ModelMetrics;

// A model and what requests call it. Several may share one infer::Model.
struct ModelSpec {
  std::string name, version;  // "clf", "2"
  std::string digest;
  std::shared_ptr<const infer::Model> model;
  std::string reference = {};  // what it was asked for by, "clf@production"; requests may call it that, too
  std::int64_t created = 0;    // seconds since 1970; 0: not known
  std::shared_ptr<monitor::Live> live = {};    // sees what it answers, for models of images and rows; may be null
  std::shared_ptr<ModelMetrics> metrics = {};  // that go on with those of the version before; null: new ones
  // What the model must answer before it is served, with names for messages.
  std::vector<std::pair<std::string, infer::Golden>> golden = {};
};

// Files in PEM. `client_authority`: clients must show a certificate that it has signed; "" if they need none.
struct TlsFiles {
  std::string certificate, key, client_authority{};
};

// What may be changed while a server runs, from any thread.
class Control {
 public:
  virtual ~Control() = default;
  virtual void set_keys(std::vector<ApiKey> keys) = 0;
  // Gets the model ready, which then answers in the place of the one of its name. That one answers what it has begun.
  // Throws what serve() throws for a model that cannot be served; the one before goes on then.
  virtual void replace(ModelSpec spec) = 0;
  // Through options.warn and options.say, on the server's thread.
  virtual void warn(std::string why) = 0;
  virtual void say(std::string what) = 0;
  virtual bool stopping() const = 0;
};

struct ServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;  // 0: any free one, told through `listening`
  std::string socket_path;    // a socket of the file system, in the place of host and port; "" for none
  int socket = -1;            // one that listens there already, which the server closes (serve_at())
  std::optional<TlsFiles> tls;
  std::optional<std::vector<ApiKey>> keys;  // that requests need; nullopt: none
  std::string program_version;              // of mlx, for GET /v2
  std::int64_t max_batch = 64;              // examples computed together
  std::int64_t max_body = 8 << 20;          // bytes; 413 beyond
  int max_connections = 512;                // 503 beyond
  int queue_limit = 1024;                   // waiting examples or texts of a model; 429 with Retry-After beyond
  std::int64_t ngram = 0;     // texts speculate with runs of so many tokens (infer/speculation.h); 0: they do not
  double idle_timeout = 30;   // seconds; also for a request's head and for its body, from the first byte to the last
  double drain_timeout = 10;  // seconds that requests in flight may take once it is told to stop
  std::function<void(std::uint16_t port)> listening;  // called once the socket listens
  std::function<void()> draining;                     // called when it is told to stop; may be empty
  std::function<void(const std::string& why)> warn;   // of what does not stop it; may be empty
  std::function<void(const std::string& what)> say;   // what has changed; may be empty
  // Runs on a thread of its own beside the server, and returns soon after control.stopping(). May be empty.
  std::function<void(Control& control)> watch;
  std::function<void(const std::string& line)> access_log;  // may be empty
};

}  // namespace mlx::serve
