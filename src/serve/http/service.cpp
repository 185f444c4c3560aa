// One protocol a row; what is wrong with a request is told in its form.
#include "serve/http/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>

#include "base/clock.h"
#include "base/error.h"

namespace mlx::serve {
namespace {

// The first one whose paths begin like a request's tells what is wrong with it; the last one, if none does.
const Protocol* const kProtocols[] = {&kAnthropic, &kOpenAi, &kOllama, &kOpenInference, &kPage};

constexpr const char* kNoModel = "model_not_found";

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

std::string_view without_query(std::string_view target) {
  return target.substr(0, target.find('?'));
}

// The name between a protocol's `models` and what the route has behind it; nullopt if the path is another one.
std::optional<std::string_view> name_in(std::string_view path, const Protocol& protocol, const Route& route) {
  if (!path.starts_with(protocol.models) || !path.ends_with(route.path)) return std::nullopt;
  if (path.size() <= protocol.models.size() + route.path.size()) return std::nullopt;
  path.remove_prefix(protocol.models.size());
  path.remove_suffix(route.path.size());
  return path;
}

}  // namespace

Service::Service(const std::vector<ModelSpec>& models, const ServerOptions& options)
    : options_(options), models_(models, options) {}

Service::Found Service::find(const std::string& target, const VisibleModels& models) {
  Found found{.why = "there is nothing at this path; see GET /v2", .code = "unknown_url"};
  const std::optional<std::string> path = decode(without_query(target));
  if (!path) return found;
  for (const Protocol* protocol : kProtocols) {
    for (const Route& route : protocol->routes) {
      if (route.at == Route::At::kPath) {
        if (*path == route.path) return {.route = &route};
      } else if (const auto name = name_in(*path, *protocol, route)) {  // the longest ending comes first
        if (ServedModel* model = models.find(*name)) return {.route = &route, .model = model};
        if (found.code == kNoModel) continue;
        found.why = fmt::format("no model '{}' here; this server has {}", *name, models.names());
        found.code = kNoModel;
      }
    }
  }
  return found;
}

// A path that there is not tells no more to those without a key.
ApiKeyPtr Service::admit(const std::string& target, std::string_view key) {
  const Found found = find(target, models_.visible(nullptr));
  return access_.admit(key, found.route == nullptr ? Need::kInfer : found.route->need, unix_micros());
}

bool Service::takes_body(const std::string& method, const std::string& target, const ApiKey* key) const {
  if (method != "POST") return false;
  const Found found = find(target, models_.visible(key));
  return found.route != nullptr && found.route->body;
}

bool Service::takes_forms(const std::string& target) {
  return std::ranges::any_of(kProtocols,
                             [&](const Protocol* each) { return each->forms && target.starts_with(each->below); });
}

std::string Service::error_body(const std::string& target, const Reply& reply) {
  for (const Protocol* protocol : kProtocols)
    if (target.starts_with(protocol->below)) return protocol->error_body(reply);
  return kOpenInference.error_body(reply);
}

void Service::answer(const Request& request, const ExchangePtr& exchange) {
  const VisibleModels models = models_.visible(request.key.get());
  const Found found = find(request.target, models);
  if (found.route == nullptr) {
    Reply reply = error_reply(404, found.why);
    reply.code = found.code;
    return exchange->reply(std::move(reply));
  }
  const std::string_view allowed = found.route->allowed;
  const bool known = request.method == "GET" || request.method == "HEAD" || request.method == "POST";
  if (!known || allowed.find(request.method) == std::string_view::npos) {
    return exchange->reply(
        error_reply(405, fmt::format("this path takes {}", allowed), fmt::format("Allow: {}\r\n", allowed)));
  }
  try {
    const bool locked = request.key == nullptr && access_.needed();
    found.route->answer({models, metrics_, options_, request, exchange, ready_, locked, found.model});
  } catch (const Error& error) {
    exchange->reply(error_reply(error));
  } catch (const std::bad_alloc&) {
    exchange->reply(busy_reply("out of memory"));
  }
}

}  // namespace mlx::serve
