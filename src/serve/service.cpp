// One route a line; what is wrong with a request becomes {"error": "…"} and its status.
#include "serve/service.h"

#include <fmt/format.h>

#include <exception>
#include <iterator>
#include <memory>
#include <optional>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "serve/json_reader.h"

namespace mlx::serve {
namespace {

constexpr std::string_view kModels = "/v2/models/";

// "%2F" is '/'; nullopt for an escape that is none.
std::optional<std::string> decode(std::string_view path) {
  std::string out;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] != '%') {
      out += path[i];
      continue;
    }
    const auto digit = [&](std::size_t at) {
      const char c = at < path.size() ? path[at] : ' ';
      return c >= '0' && c <= '9'   ? c - '0'
             : c >= 'a' && c <= 'f' ? c - 'a' + 10
             : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                    : -1;
    };
    if (digit(i + 1) < 0 || digit(i + 2) < 0) return std::nullopt;
    out += static_cast<char>(digit(i + 1) * 16 + digit(i + 2));
    i += 2;
  }
  return out;
}

bool take_suffix(std::string& text, std::string_view suffix) {
  if (!text.ends_with(suffix)) return false;
  text.resize(text.size() - suffix.size());
  return true;
}

}  // namespace

Reply error_reply(int status, std::string_view why, std::string headers) {
  Reply reply;
  reply.status = status;
  reply.body = "{\"error\":";
  append_json_string(reply.body, why);
  reply.body += '}';
  reply.headers = std::move(headers);
  return reply;
}

Service::Service(const nn::Model& model, const ServerOptions& options, Pool& pool)
    : options_(options),
      precision_(model.precision),
      predictor_(model, options.max_batch, options.level, pool),
      signature_(model, predictor_.input_name(), predictor_.classes()),
      batcher_(predictor_, options.queue_limit, metrics_) {
  predictor_.warm_up();  // nothing has been submitted yet: the batcher's thread sleeps
  ready_ = true;
}

Service::Route Service::route(const std::string& target, std::string& why) const {
  const std::optional<std::string> decoded = decode(target.substr(0, target.find('?')));
  why = "there is nothing at this path; see GET /v2 and GET /v2/models/" + options_.name;
  if (!decoded) return Route::kNone;
  std::string path = *decoded;
  if (path == "/v2/health/live") return Route::kLive;
  if (path == "/v2/health/ready") return Route::kReady;
  if (path == "/v2" || path == "/v2/") return Route::kServer;
  if (path == "/metrics") return Route::kMetrics;
  if (!path.starts_with(kModels)) return Route::kNone;
  path.erase(0, kModels.size());
  const Route found = take_suffix(path, "/infer")   ? Route::kInfer
                      : take_suffix(path, "/ready") ? Route::kModelReady
                                                    : Route::kModel;
  take_suffix(path, "/versions/" + options_.version);
  if (path == options_.name) return found;
  why = fmt::format("no model '{}' here; this server has '{}', version {}", path, options_.name, options_.version);
  return Route::kNone;
}

bool Service::takes_body(const std::string& method, const std::string& target) const {
  std::string why;
  return method == "POST" && route(target, why) == Route::kInfer;
}

Reply Service::answer_now(Route route) const {
  Reply reply;
  const auto out = std::back_inserter(reply.body);
  const bool ready = ready_;
  switch (route) {
    case Route::kLive:
      reply.body = R"({"live":true})";
      break;
    case Route::kReady:
      reply.status = ready ? 200 : 503;
      fmt::format_to(out, R"({{"ready":{}}})", ready);
      break;
    case Route::kServer:
      reply.body = "{\"name\":\"mlx\",\"version\":";
      append_json_string(reply.body, options_.program_version);
      reply.body += ",\"extensions\":[]}";
      break;
    case Route::kModelReady:
      reply.status = ready ? 200 : 503;
      reply.body = "{\"name\":";
      append_json_string(reply.body, options_.name);
      fmt::format_to(out, ",\"ready\":{}}}", ready);
      break;
    case Route::kModel:
      reply.body = "{\"name\":";
      append_json_string(reply.body, options_.name);
      reply.body += ",\"versions\":[";
      append_json_string(reply.body, options_.version);
      fmt::format_to(out, "],\"platform\":\"mlx\",\"digest\":\"{}\",\"precision\":\"{}\",{}}}", options_.digest,
                     precision_, signature_.metadata());
      break;
    case Route::kMetrics:
      reply.type = "text/plain; version=0.0.4; charset=utf-8";
      reply.body = metrics_.text({options_.name, options_.version, options_.digest, precision_, batcher_.waiting()});
      break;
    case Route::kNone:
    case Route::kInfer:
      break;
  }
  return reply;
}

void Service::infer(const Request& request, const std::function<void(Reply)>& reply) {
  const double started = seconds_now();
  auto parsed = std::make_shared<InferRequest>(signature_.parse(request.body));
  auto job = std::make_shared<Job>();
  job->count = parsed->count;
  job->images = std::move(parsed->images);
  job->done = [this, parsed, reply, started](const std::shared_ptr<Job>& done) {
    if (!done->error.empty()) return reply(error_reply(500, done->error));
    Reply answer;
    answer.body = signature_.answer(*parsed, done->logits, {options_.name, options_.version});
    metrics_.inference(seconds_now() - started);
    reply(std::move(answer));
  };
  if (!batcher_.submit(std::move(job))) {
    reply(error_reply(503, fmt::format("{} examples are waiting; try again later", batcher_.waiting()),
                      "Retry-After: 1\r\n"));
  }
}

void Service::answer(const Request& request, const std::function<void(Reply)>& reply) {
  std::string why;
  const Route found = route(request.target, why);
  if (found == Route::kNone) return reply(error_reply(404, why));
  const bool post = request.method == "POST", get = request.method == "GET" || request.method == "HEAD";
  if (found == Route::kInfer ? !post : !get) {
    const char* allowed = found == Route::kInfer ? "POST" : "GET, HEAD";
    return reply(error_reply(405, fmt::format("this path takes {}", allowed), fmt::format("Allow: {}\r\n", allowed)));
  }
  if (found != Route::kInfer) return reply(answer_now(found));
  try {
    infer(request, reply);
  } catch (const Error& error) {
    reply(error_reply(error.kind == ErrorKind::kUsage || error.kind == ErrorKind::kCorrupt ? 400 : 500, error.message));
  } catch (const std::bad_alloc&) {
    reply(error_reply(503, "out of memory", "Retry-After: 1\r\n"));
  }
}

}  // namespace mlx::serve
