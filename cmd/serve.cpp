// mlx serve: answers inference requests for one or several models over HTTP until it is told to stop.
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "base/service_manager.h"
#include "cmd/cli/cli.h"
#include "cmd/serve_keys.h"
#include "cmd/serve_models.h"
#include "graph/passes/passes.h"
#include "infer/batch_generator.h"
#include "infer/model.h"
#include "serve/deployment.h"
#include "serve/http/server.h"

namespace mlx::cmd {
namespace {

struct ServeOptions {
  std::vector<std::string> models;
  std::string listen = "127.0.0.1:8080", speculate, cache = "f32";
  std::string tls_cert, tls_key, client_ca, keys, rollback_on;
  std::int64_t max_batch = 64, max_body = 8 << 20, queue = 1024, monitor = 0;
  double idle_timeout = 30, grace = 10;
  bool log = false, insecure = false;
};

// "HOST:PORT", "[::1]:PORT", "unix:PATH"
void parse_listen(const std::string& text, Context& context, serve::ServerOptions& to) {
  constexpr std::string_view kUnix = "unix:";
  if (text.starts_with(kUnix) && text.size() > kUnix.size()) {
    to.socket_path = join_path(context.folder(), text.substr(kUnix.size()));
    return;
  }
  const std::size_t colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  std::string host = text.substr(0, colon == std::string::npos ? 0 : colon);
  const bool digits = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string::npos) {
    host.clear();
  }
  if (host.empty() || !digits || std::stoi(port) > 65535) {
    throw Error(ErrorKind::kUsage, fmt::format("--listen {}: expected HOST:PORT with a port from 0 to 65535", text),
                "for example 127.0.0.1:8080, [::1]:8080, 127.0.0.1:0 for any free port, or unix:PATH");
  }
  to.host = host;
  to.port = static_cast<std::uint16_t>(std::stoi(port));
}

void check_range(const char* option, double value, double least, double most) {
  if (value >= least && value <= most) return;
  fail(ErrorKind::kUsage, "{} {}: expected {} to {}", option, value, least, most);
}

std::optional<serve::TlsFiles> tls_files(const ServeOptions& options, Context& context) {
  const bool any = !options.tls_cert.empty() || !options.tls_key.empty() || !options.client_ca.empty();
  if (!any) return std::nullopt;
  if (options.tls_cert.empty() || options.tls_key.empty())
    fail(ErrorKind::kUsage, "TLS needs both --tls-cert and --tls-key");
  const auto path = [&](const std::string& name) { return name.empty() ? "" : join_path(context.folder(), name); };
  return serve::TlsFiles{path(options.tls_cert), path(options.tls_key), path(options.client_ca)};
}

// Beyond this machine nobody is believed, and nothing is sent in clear.
void require_secure(const serve::ServerOptions& server, const ServeOptions& options) {
  if (options.insecure || !server.socket_path.empty() || serve::is_loopback(server.host)) return;
  const bool known = server.keys || (server.tls && !server.tls->client_authority.empty());
  if (server.tls && known) return;
  throw Error(ErrorKind::kRefused,
              fmt::format("--listen {}: others would reach it, and there {}", options.listen,
                          server.tls ? "are no API keys" : "is no TLS"),
              "--tls-cert and --tls-key, and an API key (`mlx key api add`) or --client-ca, make it safe; --insecure "
              "listens without");
}

serve::ServerOptions server_options(const ServeOptions& options, Context& context) {
  check_range("--max-batch", static_cast<double>(options.max_batch), 1, 4096);
  check_range("--max-body", static_cast<double>(options.max_body), 1, 1 << 30);
  check_range("--queue", static_cast<double>(options.queue), 1, 1 << 20);
  if (options.monitor != 0) check_range("--monitor", static_cast<double>(options.monitor), 100, 1 << 30);
  check_range("--idle-timeout", options.idle_timeout, 0.1, 86400);
  check_range("--grace", options.grace, 0, 86400);
  serve::ServerOptions out;
  parse_listen(options.listen, context, out);
  out.tls = tls_files(options, context);
  out.program_version = MLX_VERSION;
  out.max_batch = options.max_batch;
  out.max_body = options.max_body;
  out.queue_limit = static_cast<int>(options.queue);
  out.idle_timeout = options.idle_timeout;
  out.drain_timeout = options.grace;
  if (!options.speculate.empty()) out.ngram = infer::parse_ngram(options.speculate, "--speculate");
  return out;
}

// What people and programs are told of a model that is served.
struct Shown {
  std::string title, name, version, digest;
  const char* action;  // what is asked with POST
  Json cache;          // of keys and values, if it has one
};

bool writes_text(const infer::Model& model) {
  return model.signature().takes == infer::Takes::kText && !graph::is_encoder(model.graph());
}

Json cache_json(const infer::Model& model) {
  if (!infer::can_batch(model)) return nullptr;
  return {{"type", infer::cache_word(model.cache())}, {"bytes_per_token", infer::cache_position_bytes(model)}};
}

std::vector<Shown> shown_models(const std::vector<serve::ModelSpec>& specs, const ServeModels& models) {
  std::vector<Shown> out;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const bool text = writes_text(*specs[i].model);
    out.push_back({models.titles()[i], specs[i].name, specs[i].version, specs[i].digest, text ? "generate" : "infer",
                   cache_json(*specs[i].model)});
  }
  return out;
}

std::string url_of(const serve::ServerOptions& options, std::uint16_t port) {
  if (!options.socket_path.empty()) return "unix:" + options.socket_path;
  const bool v6 = options.host.find(':') != std::string::npos;
  return fmt::format("{}://{}{}{}:{}", options.tls ? "https" : "http", v6 ? "[" : "", options.host, v6 ? "]" : "",
                     port);
}

void announce(const std::vector<Shown>& models, const kernels::Backend& backend, const serve::ServerOptions& options,
              std::uint16_t port, Context& context) {
  const std::string url = url_of(options, port);
  const auto post = [&](const Shown& model) {
    return fmt::format("{}/v2/models/{}/{}", url, model.name, model.action);
  };
  if (context.wants_json()) {
    Json document = {{"schema", "mlx.serve/1"}, {"url", url}};
    Json list = Json::array();
    for (const Shown& model : models) {
      list.push_back(
          {{model.action, post(model)}, {"model", model.name}, {"version", model.version}, {"digest", model.digest}});
      if (!model.cache.is_null()) list.back()["cache"] = model.cache;
    }
    document.update(list.at(0));  // the first one stands for itself, too
    document["tls"] = options.tls.has_value();
    document["api_keys"] = options.keys.has_value();
    document["kernels"] = backend.name();
    document["models"] = std::move(list);
    context.json(document);
  }
  const bool known = options.keys || (options.tls && !options.tls->client_authority.empty());
  if (options.socket_path.empty() && !serve::is_loopback(options.host) && !known) {
    context.progress().warn(fmt::format(
        "listening on {}: anyone who reaches it may use the model, there is no authentication", options.host));
  }
  for (const Shown& model : models)
    context.say(fmt::format("serving {} at {}  (POST {})", model.title, url, post(model)));
}

// Beside the server, on a thread that alone uses the repository.
void watch(serve::Control& control, ServeKeys& keys, ServeModels& models) {
  constexpr int kKeysEvery = 5;
  for (int tick = 1; !control.stopping(); ++tick) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (tick % kKeysEvery == 0) keys.look(control);
    models.look(control);
  }
}

// A socket from the service manager takes the place of --listen.
void take_socket(serve::ServerOptions& server, Context& context) {
  std::vector<Fd> sockets = sockets_of_service_manager(context.environment());
  if (sockets.size() > 1)
    throw Error(ErrorKind::kUsage, fmt::format("LISTEN_FDS: {} sockets, and a server has one", sockets.size()),
                "give the socket unit one ListenStream");
  if (!sockets.empty()) serve::serve_at(sockets[0], server);
}

int run_serve(const ServeOptions& options, Context& context) {
  serve::ServerOptions server = server_options(options, context);
  take_socket(server, context);
  ServeKeys keys(options.keys, context);
  server.keys = keys.now();
  require_secure(server, options);
  ServeModels loader({options.models, infer::cache_named(options.cache), parse_release_bounds(options.rollback_on),
                      static_cast<std::uint64_t>(options.monitor)},
                     context);
  std::vector<serve::ModelSpec> specs = loader.load();
  if (!options.rollback_on.empty() && !loader.follows_aliases())
    throw Error(ErrorKind::kUsage, "--rollback-on moves an alias back, and no model is asked for by one",
                "serve one as MODEL@ALIAS, such as clf@production");
  for (const serve::ModelSpec& spec : specs) {
    const bool text = writes_text(*spec.model);
    if (server.ngram > 0 && text && !infer::can_batch(*spec.model))
      context.progress().warn(
          fmt::format("{}: no tokens are proposed, as a pass over several tokens may round "
                      "differently from one over each (mlx-predict(1))",
                      spec.name));
  }
  std::signal(SIGHUP, SIG_IGN);  // a server outlives the terminal that it was started from
  const std::vector<Shown> shown = shown_models(specs, loader);
  server.listening = [&](std::uint16_t port) {
    announce(shown, loader.backend(), server, port, context);
    tell_service_manager(context.environment(), "READY=1");
  };
  server.draining = [&] { tell_service_manager(context.environment(), "STOPPING=1"); };
  server.warn = [&](const std::string& why) { context.progress().warn(why); };
  server.say = [&](const std::string& what) { context.say(what); };
  server.watch = [&](serve::Control& control) { watch(control, keys, loader); };
  if (options.log) server.access_log = [&](const std::string& line) { context.say(line); };
  serve::serve(std::move(specs), server, context.progress().interruption());
  context.say("stopped");
  return 0;
}

}  // namespace

Command add_serve() {
  auto options = std::make_shared<ServeOptions>();
  Command command;
  command.name = "serve";
  command.summary = "Answer requests for models over HTTP, as KServe, OpenAI, Anthropic and Ollama have them";
  command.group = "release";
  command.options = {
      arguments("MODEL", options->models,
                "The model's reference (clf, clf@v2, clf@production) or a folder with its files; NAME=MODEL serves it "
                "under another name",
                Complete::kReference),
      option("-l,--listen", "HOST:PORT", options->listen,
             "Where to listen; port 0 takes a free one (default: 127.0.0.1:8080); unix:PATH is a socket in a file"),
      option("--tls-cert", "FILE", options->tls_cert, "The certificate and those above it, in PEM: TLS 1.3",
             Complete::kFile),
      option("--tls-key", "FILE", options->tls_key, "The certificate's key, in PEM", Complete::kFile),
      option("--client-ca", "FILE", options->client_ca, "Clients must show a certificate that this one has signed",
             Complete::kFile),
      option("--keys", "FILE", options->keys,
             "The API keys, as `mlx key api list --json` writes them (default: those of the repository)",
             Complete::kFile),
      flag("--insecure", options->insecure, "Listen beyond this machine without TLS or keys"),
      integer("--max-batch", "N", options->max_batch, "Most examples computed together (default: 64)"),
      integer("--max-body", "BYTES", options->max_body, "Largest body of a request (default: 8388608)"),
      integer("--queue", "N", options->queue,
              "Most examples or texts that wait for a model; beyond, requests get 429 (default: 1024)"),
      number("--idle-timeout", "SECONDS", options->idle_timeout,
             "How long a connection may idle or a request take to arrive (default: 30)"),
      number("--grace", "SECONDS", options->grace, "How long requests may take once it is told to stop (default: 10)"),
      option("--speculate", "ngram[:N]", options->speculate,
             "Texts that are alone propose what followed their last 2 to N tokens before: faster, the same text"),
      choice("--cache", "TYPE", {"f32", "f16", "q8"}, options->cache,
             "How keys and values of texts are kept: half or about a quarter of the memory (default: f32)"),
      option("--rollback-on", "BOUNDS", options->rollback_on,
             "Move an alias back from a version that answers with more errors, or slower: errors=1%,p99=50ms"),
      integer(
          "--monitor", "N", options->monitor,
          "Compare each N examples with what the model was trained on: metrics mlx_drift_…, and a warning on drift"),
      flag("--log", options->log, "One line on stderr for each request"),
  };
  command.examples = {
      "mlx serve clf@production --listen 127.0.0.1:8080",
      "mlx serve clf price@v3 gpt old=clf@~1",
      "mlx checkout clf@v2 --to clf && mlx serve ./clf",
      "mlx serve clf@production --rollback-on errors=1%,p99=50ms",
      "mlx serve lm@production  # OpenAI's packages: base_url=http://127.0.0.1:8080/v1",
      "curl -H 'Content-Type: application/json' -d @request.json http://127.0.0.1:8080/v2/models/clf/infer"};
  command.run = [options](Context& context) { return run_serve(*options, context); };
  return command;
}

}  // namespace mlx::cmd
