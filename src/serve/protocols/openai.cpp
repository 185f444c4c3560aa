// See openai.h.
#include "serve/protocols/openai.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "base/bytes.h"
#include "base/crypto.h"
#include "base/error.h"
#include "base/json.h"

namespace mlx::serve {
namespace {

Json model_json(const ModelSpec& spec) {
  return {{"id", public_name(spec)}, {"object", "model"},       {"created", spec.created},
          {"owned_by", "mlx"},       {"version", spec.version}, {"digest", spec.digest}};
}

void list_models(const Asked& asked) {
  Json data = Json::array();
  for (const auto& model : asked.models.all()) data.push_back(model_json(model->spec()));
  asked.exchange->reply(json_reply(200, Json{{"object", "list"}, {"data", std::move(data)}}.dump()));
}

void retrieve_model(const Asked& asked) {
  asked.exchange->reply(json_reply(200, model_json(asked.model->spec()).dump()));
}

// Without a name the only one that `fits`.
ServedModel& model_named(const Asked& asked, const std::string& name, bool (*fits)(const ServedModel& model)) {
  if (!name.empty()) {
    if (ServedModel* found = asked.models.find(name)) return *found;
    throw RefusedRequest(404, "model_not_found",
                         fmt::format("no model '{}' here; this server has {}", name, asked.models.names()));
  }
  std::vector<ServedModel*> fitting;
  for (const auto& model : asked.models.all())
    if (fits(*model)) fitting.push_back(model.get());
  if (fitting.size() == 1) return *fitting[0];
  throw RefusedRequest(400, "", fmt::format("say which 'model': this server has {}", asked.models.names()));
}

const char* error_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

constexpr Route kOpenAiRoutes[] = {
    {Route::At::kPath, "/v1/completions", "POST", true, Need::kInfer, openai_completions},
    {Route::At::kPath, "/v1/chat/completions", "POST", true, Need::kInfer, openai_chat},
    {Route::At::kPath, "/v1/embeddings", "POST", true, Need::kInfer, openai_embeddings},
    {Route::At::kPath, "/v1/models", "GET, HEAD", false, Need::kInfer, list_models},
    {Route::At::kModel, "", "GET, HEAD", false, Need::kInfer, retrieve_model},
};

}  // namespace

const Protocol kOpenAi = {"/v1/", "/v1/models/", kOpenAiRoutes, openai_error};

std::string openai_error(const Reply& reply) {
  const Json code = reply.code.empty() ? Json() : Json(reply.code);
  return Json{
      {"error", {{"message", reply.error}, {"type", error_type(reply.status)}, {"param", nullptr}, {"code", code}}}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string public_name(const ModelSpec& spec) {
  return spec.reference.empty() ? spec.name : spec.reference;
}

std::string fresh_id(const std::string& prefix) {
  std::array<std::uint8_t, 12> bytes{};
  random_bytes(bytes);
  return prefix + to_hex(bytes);
}

TextModel& text_model_named(const Asked& asked, const std::string& name) {
  return model_named(asked, name, [](const ServedModel& model) { return model.writes_text(); }).text();
}

ServedModel& vector_model_named(const Asked& asked, const std::string& name) {
  return model_named(asked, name,
                     [](const ServedModel& model) { return model.model().signature().takes == infer::Takes::kText; });
}

}  // namespace mlx::serve
