// The Open Inference Protocol v2 in JSON, and the server's health and metrics. Text is generate.cpp's.
// Sources: KServe "Open Inference Protocol" v2 (REST), Triton's model repository extension.
#include <fmt/format.h>

#include <set>

#include "base/error.h"
#include "serve/json_reader.h"
#include "serve/protocols/generate.h"
#include "serve/protocols/protocol.h"

namespace mlx::serve {
namespace {

std::string in_quotes(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

void live(const Asked& asked) {
  asked.exchange->reply(json_reply(200, R"({"live":true})"));
}

void ready(const Asked& asked) {
  asked.exchange->reply(json_reply(asked.ready ? 200 : 503, fmt::format(R"({{"ready":{}}})", asked.ready)));
}

void server(const Asked& asked) {
  std::string names;
  for (const auto& model : asked.models.all()) names += (names.empty() ? "" : ",") + in_quotes(model->spec().name);
  asked.exchange->reply(json_reply(
      200,
      fmt::format(
          R"({{"name":"mlx","version":{},"extensions":["generate","model_repository","binary_tensor_data"],"models":[{}]}})",
          in_quotes(asked.options.program_version), names)));
}

// The body may say {"ready":true}: only what is ready is listed.
void index(const Asked& asked) {
  const std::string& body = asked.request.body;
  bool only_ready = false;
  if (body.find_first_not_of(" \t\r\n") != std::string::npos) {
    JsonReader in(body);
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
  for (const auto& model : asked.models.all()) {
    if (only_ready && !asked.ready) break;
    list += fmt::format(R"({}{{"name":{},"version":{},"state":"{}","reason":"{}"}})", list.empty() ? "" : ",",
                        in_quotes(model->spec().name), in_quotes(model->spec().version),
                        asked.ready ? "READY" : "UNAVAILABLE", asked.ready ? "" : "the server is stopping");
  }
  asked.exchange->reply(json_reply(200, "[" + list + "]"));
}

void metrics_text(const Asked& asked) {
  std::vector<ModelSample> samples;
  std::set<const graph::Weights*> weights;
  for (const auto& model : asked.models.all()) {
    samples.push_back(model->sample());
    weights.insert(model->model().about().weights.get());
  }
  std::size_t bytes = 0;
  for (const graph::Weights* one : weights) bytes += one->bytes() + one->packed_bytes();
  Reply reply;
  reply.type = "text/plain; version=0.0.4; charset=utf-8";
  reply.body = asked.metrics.text(samples, bytes);
  asked.exchange->reply(std::move(reply));
}

void model_ready(const Asked& asked) {
  asked.exchange->reply(
      json_reply(asked.ready ? 200 : 503,
                 fmt::format(R"({{"name":{},"ready":{}}})", in_quotes(asked.model->spec().name), asked.ready)));
}

void model(const Asked& asked) {
  const ModelSpec& spec = asked.model->spec();
  asked.exchange->reply(
      json_reply(200, fmt::format(R"({{"name":{},"versions":[{}],"platform":"mlx","digest":"{}","precision":"{}",{}}})",
                                  in_quotes(spec.name), in_quotes(spec.version), spec.digest,
                                  spec.model->about().precision, asked.model->tensors())));
}

void infer(const Asked& asked) {
  asked.model->infer(asked.request, asked.exchange);
}

void generate_whole(const Asked& asked) {
  generate(asked, false);
}

void generate_stream(const Asked& asked) {
  generate(asked, true);
}

std::string open_inference_error(const Reply& reply) {
  return error_json(reply.error);
}

constexpr Route kOpenInferenceRoutes[] = {
    {Route::At::kPath, "/v2/health/live", "GET, HEAD", false, Need::kNothing, live},
    {Route::At::kPath, "/v2/health/ready", "GET, HEAD", false, Need::kNothing, ready},
    {Route::At::kPath, "/v2", "GET, HEAD", false, Need::kInfer, server},
    {Route::At::kPath, "/v2/", "GET, HEAD", false, Need::kInfer, server},
    {Route::At::kPath, "/v2/repository/index", "POST", false, Need::kInfer, index},
    {Route::At::kPath, "/metrics", "GET, HEAD", false, Need::kMetrics, metrics_text},
    {Route::At::kModel, "/ready", "GET, HEAD", false, Need::kInfer, model_ready},
    {Route::At::kModel, "/infer", "POST", true, Need::kInfer, infer},
    {Route::At::kModel, "/generate", "POST", true, Need::kInfer, generate_whole},
    {Route::At::kModel, "/generate_stream", "POST", true, Need::kInfer, generate_stream},
    {Route::At::kModel, "", "GET, HEAD", false, Need::kInfer, model},
};

}  // namespace

const Protocol kOpenInference = {"/v2", "/v2/models/", kOpenInferenceRoutes, open_inference_error};

}  // namespace mlx::serve
