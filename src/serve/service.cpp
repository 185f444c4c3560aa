// One route a row; what is wrong with a request becomes {"error": "…"} and its status.
#include "serve/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <optional>
#include <set>

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

Reply json_reply(int status, std::string body) {
  Reply reply;
  reply.status = status;
  reply.body = std::move(body);
  return reply;
}

std::string quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

}  // namespace

// A path, or what stands behind /v2/models/NAME or /v2/models/NAME/versions/V.
struct Service::Route {
  std::string_view path;
  bool of_model = false;
  const char* allowed = "GET, HEAD";  // methods
  bool body = false;
  void (Service::*answer)(const Found&, const Request&, const ExchangePtr&) = nullptr;
};

const Service::Route Service::kRoutes[] = {
    {"/v2/health/live", false, "GET, HEAD", false, &Service::live},
    {"/v2/health/ready", false, "GET, HEAD", false, &Service::ready},
    {"/v2", false, "GET, HEAD", false, &Service::server},
    {"/v2/", false, "GET, HEAD", false, &Service::server},
    {"/v2/repository/index", false, "POST", false, &Service::index},
    {"/metrics", false, "GET, HEAD", false, &Service::metrics_text},
    {"/ready", true, "GET, HEAD", false, &Service::model_ready},
    {"/infer", true, "POST", true, &Service::infer},
    {"/generate", true, "POST", true, &Service::generate},
    {"/generate_stream", true, "POST", true, &Service::generate_stream},
    {"", true, "GET, HEAD", false, &Service::model},
};

Service::Service(const std::vector<ModelSpec>& models, const ServerOptions& options) : options_(options) {
  for (const ModelSpec& spec : models) models_.push_back(serve_model(spec, options));
  ready_ = true;
}

void Service::finish() {
  for (const auto& model : models_) model->finish();
}

// NAME or NAME/versions/V; null for no model of this server.
ServedModel* Service::model_named(const std::string& path) const {
  for (const auto& model : models_) {
    const ModelSpec& spec = model->spec();
    if (path == spec.name || path == spec.name + "/versions/" + spec.version) return model.get();
  }
  return nullptr;
}

Service::Found Service::find(const std::string& target) const {
  Found found;
  found.why = "there is nothing at this path; see GET /v2";
  const std::optional<std::string> path = decode(target.substr(0, target.find('?')));
  if (!path) return found;
  const bool below_models = path->starts_with(kModels);
  for (const Route& route : kRoutes) {
    if (!route.of_model) {
      if (*path == route.path) found.route = &route;
    } else if (std::string name = *path; below_models && take_suffix(name, route.path)) {
      if (name.size() > kModels.size()) found.model = model_named(name.substr(kModels.size()));
      if (found.model != nullptr) found.route = &route;
    }
    if (found.route != nullptr) return found;
  }
  if (!below_models) return found;
  found.why = fmt::format("no model '{}' here; this server has ", path->substr(kModels.size()));
  for (const auto& model : models_) {
    found.why += fmt::format("{}'{}', version {}", model == models_.front() ? "" : "; ", model->spec().name,
                             model->spec().version);
  }
  return found;
}

bool Service::takes_body(const std::string& method, const std::string& target) const {
  if (method != "POST") return false;
  const Found found = find(target);
  return found.route != nullptr && found.route->body;
}

void Service::answer(const Request& request, const ExchangePtr& exchange) {
  const Found found = find(request.target);
  if (found.route == nullptr) return exchange->reply(error_reply(404, found.why));
  const std::string_view allowed = found.route->allowed;
  const bool known = request.method == "GET" || request.method == "HEAD" || request.method == "POST";
  if (!known || allowed.find(request.method) == std::string_view::npos) {
    return exchange->reply(
        error_reply(405, fmt::format("this path takes {}", allowed), fmt::format("Allow: {}\r\n", allowed)));
  }
  try {
    (this->*found.route->answer)(found, request, exchange);
  } catch (const Error& error) {
    exchange->reply(error_reply(error));
  } catch (const std::bad_alloc&) {
    exchange->reply(busy_reply("out of memory"));
  }
}

void Service::live(const Found& /*found*/, const Request& /*request*/, const ExchangePtr& exchange) {
  exchange->reply(json_reply(200, R"({"live":true})"));
}

void Service::ready(const Found& /*found*/, const Request& /*request*/, const ExchangePtr& exchange) {
  const bool ready = ready_;
  exchange->reply(json_reply(ready ? 200 : 503, fmt::format(R"({{"ready":{}}})", ready)));
}

void Service::server(const Found& /*found*/, const Request& /*request*/, const ExchangePtr& exchange) {
  std::string names;
  for (const auto& model : models_) names += (names.empty() ? "" : ",") + quoted(model->spec().name);
  exchange->reply(json_reply(
      200, fmt::format(R"({{"name":"mlx","version":{},"extensions":["generate","model_repository"],"models":[{}]}})",
                       quoted(options_.program_version), names)));
}

// The body may say {"ready":true}: only what is ready is listed.
void Service::index(const Found& /*found*/, const Request& request, const ExchangePtr& exchange) {
  const bool ready = ready_;
  bool only_ready = false;
  if (request.body.find_first_not_of(" \t\r\n") != std::string::npos) {
    JsonReader in(request.body);
    in.object([&](const std::string& key) {
      if (key == "ready") {
        only_ready = in.boolean();
      } else {
        in.skip();
      }
    });
    in.end();
  }
  std::string list;
  for (const auto& model : models_) {
    if (only_ready && !ready) break;
    list += fmt::format(R"({}{{"name":{},"version":{},"state":"{}","reason":"{}"}})", list.empty() ? "" : ",",
                        quoted(model->spec().name), quoted(model->spec().version), ready ? "READY" : "UNAVAILABLE",
                        ready ? "" : "the server is stopping");
  }
  exchange->reply(json_reply(200, "[" + list + "]"));
}

void Service::metrics_text(const Found& /*found*/, const Request& /*request*/, const ExchangePtr& exchange) {
  std::vector<ModelSample> samples;
  std::set<const graph::Weights*> weights;
  for (const auto& model : models_) {
    samples.push_back(model->sample());
    weights.insert(model->model().about().weights.get());
  }
  std::size_t bytes = 0;
  for (const graph::Weights* one : weights) bytes += one->bytes() + one->packed_bytes();
  Reply reply;
  reply.type = "text/plain; version=0.0.4; charset=utf-8";
  reply.body = metrics_.text(samples, bytes);
  exchange->reply(std::move(reply));
}

void Service::model_ready(const Found& found, const Request& /*request*/, const ExchangePtr& exchange) {
  const bool ready = ready_;
  exchange->reply(json_reply(ready ? 200 : 503,
                             fmt::format(R"({{"name":{},"ready":{}}})", quoted(found.model->spec().name), ready)));
}

void Service::model(const Found& found, const Request& /*request*/, const ExchangePtr& exchange) {
  const ModelSpec& spec = found.model->spec();
  exchange->reply(
      json_reply(200, fmt::format(R"({{"name":{},"versions":[{}],"platform":"mlx","digest":"{}","precision":"{}",{}}})",
                                  quoted(spec.name), quoted(spec.version), spec.digest, spec.model->about().precision,
                                  found.model->tensors())));
}

void Service::infer(const Found& found, const Request& request, const ExchangePtr& exchange) {
  found.model->infer(request, exchange);
}

void Service::generate(const Found& found, const Request& request, const ExchangePtr& exchange) {
  found.model->generate(request, exchange, false);
}

void Service::generate_stream(const Found& found, const Request& request, const ExchangePtr& exchange) {
  found.model->generate(request, exchange, true);
}

}  // namespace mlx::serve
