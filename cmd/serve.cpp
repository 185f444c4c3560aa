// mlx serve: answers inference requests over HTTP until a signal stops it.
#include <fmt/format.h>

#include <csignal>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/path.h"
#include "cmd/asked_model.h"
#include "cmd/cli/cli.h"
#include "cmd/level.h"
#include "registry/versions/artifacts.h"
#include "serve/server.h"

namespace mlx::cmd {
namespace {

struct ServeOptions {
  std::string model, listen = "127.0.0.1:8080";
  std::int64_t max_batch = 64, max_body = 8 << 20, queue = 1024;
  double idle_timeout = 30;
  bool log = false;
};

// "HOST:PORT", "[::1]:PORT"
void parse_listen(const std::string& text, serve::ServerOptions& to) {
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
                "for example 127.0.0.1:8080, [::1]:8080, or 127.0.0.1:0 for any free port");
  }
  to.host = host;
  to.port = static_cast<std::uint16_t>(std::stoi(port));
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

void check_range(const char* option, double value, double least, double most) {
  if (value >= least && value <= most) return;
  fail(ErrorKind::kUsage, "{} {}: expected {} to {}", option, value, least, most);
}

serve::ServerOptions server_options(const ServeOptions& options, const registry::Version& version, Context& context) {
  check_range("--max-batch", static_cast<double>(options.max_batch), 1, 4096);
  check_range("--max-body", static_cast<double>(options.max_body), 1, 1 << 30);
  check_range("--queue", static_cast<double>(options.queue), 1, 1 << 20);
  check_range("--idle-timeout", options.idle_timeout, 0.1, 86400);
  serve::ServerOptions out;
  parse_listen(options.listen, out);
  const bool folder = version.number == 0;
  out.name = folder ? base_name(absolute_path(version.artifact)) : version.artifact;
  out.version = folder ? version.digest.brief() : std::to_string(version.number);
  out.digest = version.digest.text();
  out.program_version = MLX_VERSION;
  out.max_batch = options.max_batch;
  out.max_body = options.max_body;
  out.queue_limit = static_cast<int>(options.queue);
  out.idle_timeout = options.idle_timeout;
  out.level = chosen_level(context.progress());
  return out;
}

void announce(const registry::Version& version, const serve::ServerOptions& options, std::uint16_t port,
              Context& context) {
  const bool v6 = options.host.find(':') != std::string::npos;
  const std::string url = fmt::format("http://{}{}{}:{}", v6 ? "[" : "", options.host, v6 ? "]" : "", port);
  const std::string infer = fmt::format("{}/v2/models/{}/infer", url, options.name);
  if (context.wants_json()) {
    context.json({{"schema", "mlx.serve/1"},
                  {"url", url},
                  {"infer", infer},
                  {"model", options.name},
                  {"version", options.version},
                  {"digest", options.digest},
                  {"kernels", kernels::name_of(options.level)}});
  }
  if (!is_loopback(options.host)) {
    context.progress().warn(fmt::format(
        "listening on {}: anyone who reaches it may use the model, there is no authentication", options.host));
  }
  context.say(fmt::format("serving {} at {}  (POST {})", version.name(), url, infer));
}

int run_serve(const ServeOptions& options, Context& context) {
  const AskedModel asked = open_model(options.model, context);
  serve::ServerOptions server = server_options(options, asked.version, context);
  std::signal(SIGHUP, SIG_IGN);  // a server outlives the terminal that it was started from
  server.listening = [&](std::uint16_t port) { announce(asked.version, server, port, context); };
  if (options.log) server.access_log = [&](const std::string& line) { context.say(line); };
  serve::serve(asked.model, server, context.pool(), g_interrupted);
  context.say("stopped");
  return 0;
}

}  // namespace

Command add_serve() {
  auto options = std::make_shared<ServeOptions>();
  Command command;
  command.name = "serve";
  command.summary = "Answer inference requests over HTTP (KServe Open Inference Protocol v2)";
  command.group = "release";
  command.options = {
      argument("MODEL", options->model,
               "The model's reference (clf, clf@v2, clf@production) or a folder with its files", Complete::kReference),
      option("-l,--listen", "HOST:PORT", options->listen,
             "Where to listen; port 0 takes a free one (default: 127.0.0.1:8080)"),
      integer("--max-batch", "N", options->max_batch, "Most examples computed together (default: 64)"),
      integer("--max-body", "BYTES", options->max_body, "Largest body of a request (default: 8388608)"),
      integer("--queue", "N", options->queue, "Most examples that wait; beyond, requests get 503 (default: 1024)"),
      number("--idle-timeout", "SECONDS", options->idle_timeout,
             "How long a connection may idle or a request take to arrive (default: 30)"),
      flag("--log", options->log, "One line on stderr for each request"),
  };
  command.examples = {
      "mlx serve clf@production --listen 127.0.0.1:8080", "mlx checkout clf@v2 --to clf && mlx serve ./clf",
      "curl -H 'Content-Type: application/json' -d @request.json http://127.0.0.1:8080/v2/models/clf/infer"};
  command.run = [options](Context& context) { return run_serve(*options, context); };
  return command;
}

}  // namespace mlx::cmd
