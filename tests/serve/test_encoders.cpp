// Encoders: vectors by OpenAI's interface and by the Open Inference Protocol, which are those of infer/embedding.h.
#include <doctest/doctest.h>

#include <cmath>

#include "http.h"
#include "infer/embedding.h"
#include "nn/encoder_graph.h"

namespace mlx::serve::test {
namespace {

// Of bytes, with sines for weights; the mean of its states is pooled.
nn::Model byte_encoder() {
  nn::EncoderConfig config;
  config.architecture = "BertModel";
  config.vocabulary = 256, config.positions = config.context = 20, config.segments = 2;
  config.width = 16, config.heads = 2, config.hidden = 32, config.layers = 1, config.epsilon = 1e-12f;
  nn::Model model;
  model.family = "imported";
  model.config = R"({"architecture":"BertModel","context":20,"family":"imported"})";
  model.graph = nn::build_encoder(config, "").graph;
  graph::Tensors tensors;
  for (const graph::Value& value : model.graph.values) {
    if (value.role != graph::Role::kParameter) continue;
    graph::Tensor& tensor = tensors[value.name];
    tensor.shape = graph::concrete(value, {1, 1});
    tensor.data.resize(tensor.shape.bytes());
    for (std::int64_t i = 0; i < tensor.shape.count(); ++i)
      reinterpret_cast<float*>(tensor.data.data())[i] = (value.name.ends_with("gamma") ? 1.0f : 0.0f) +
                                                        0.4f * std::sin(0.7f * static_cast<float>(i + tensors.size()));
  }
  model.weights = std::make_shared<const graph::Weights>(std::move(tensors));
  model.preprocessing.tokenizer = std::make_shared<data::Tokenizer>(data::Tokenizer::bytes());
  return model;
}

std::vector<float> pooled_vector(const infer::Model& model, const std::string& text, infer::Pooling pooling) {
  infer::Embedder embedder(model, {pooling, true}, [] {});
  const std::vector<infer::Tokens> tokens{{text.begin(), text.end()}};
  return embedder.embed(tokens).at(0);
}

std::vector<Named> encoder() {
  std::vector<Named> models;
  models.push_back({"enc", byte_encoder()});
  return models;
}

Answer send_json(const Running& server, const std::string& target, const Json& body) {
  return ask(server.port(), post(body.dump(), "Content-Type: application/json\r\n", target));
}

TEST_CASE("encoders: /v1/embeddings and the Open Inference Protocol give the vectors of the model's own pooling") {
  Running server(encoder());
  const std::vector<float> one = pooled_vector(server.model(), "one", infer::Pooling::kMean),
                           two = pooled_vector(server.model(), "two words", infer::Pooling::kMean);
  const Json answer = send_json(server, "/v1/embeddings", {{"input", {"one", "two words"}}}).json();
  CHECK(answer["data"][0]["embedding"].get<std::vector<float>>() == one);
  CHECK(answer["data"][1]["embedding"].get<std::vector<float>>() == two);
  CHECK(answer["model"] == "enc");
  CHECK(answer["usage"]["prompt_tokens"] == 12);
  for (const auto& [name, pooling] :
       {std::pair("cls", infer::Pooling::kFirst), std::pair("max", infer::Pooling::kMax),
        std::pair("last", infer::Pooling::kLast), std::pair("mean", infer::Pooling::kMean)}) {
    CAPTURE(name);
    const Json pooled = send_json(server, "/v1/embeddings", {{"input", {{111, 110, 101}}}, {"pooling", name}}).json();
    CHECK(pooled["data"][0]["embedding"].get<std::vector<float>>() == pooled_vector(server.model(), "one", pooling));
  }
  const Json about = ask(server.port(), get("/v2/models/enc")).json();
  CHECK(about["inputs"] == Json::array({{{"name", "text_input"}, {"datatype", "BYTES"}, {"shape", {-1}}}}));
  CHECK(about["outputs"] == Json::array({{{"name", "embedding"}, {"datatype", "FP32"}, {"shape", {-1, 16}}}}));
  std::vector<float> both = one;
  both.insert(both.end(), two.begin(), two.end());
  for (const Json& shape : {Json{2}, Json{2, 1}}) {
    const Json data = shape.size() == 1 ? Json{"one", "two words"} : Json{Json{"one"}, Json{"two words"}};
    const Json input = {{"name", "text_input"}, {"datatype", "BYTES"}, {"shape", shape}, {"data", data}};
    const Json made = send_json(server, "/v2/models/enc/infer", {{"id", "7"}, {"inputs", {input}}}).json();
    CHECK(made["id"] == "7");
    REQUIRE(made["outputs"].size() == 1);
    CHECK(made["outputs"][0]["shape"] == Json{2, 16});
    CHECK(made["outputs"][0]["data"].get<std::vector<float>>() == both);
  }
  const std::string metrics = ask(server.port(), get("/metrics")).body;
  CHECK(metrics.find("mlx_examples_total{model=\"enc\"} 10\n") != std::string::npos);
  CHECK(metrics.find("mlx_inference_seconds_count{model=\"enc\"} 7\n") != std::string::npos);
  CHECK(ask(server.port(), get("/")).body.find("/v1/embeddings") != std::string::npos);
}

TEST_CASE("encoders: what they are not asked for is refused, and says why") {
  Running server(encoder());
  const auto refused = [&](const std::string& target, const Json& body, const std::string& why) {
    const Answer answer = send_json(server, target, body);
    CHECK(answer.status == 400);
    CHECK_MESSAGE(answer.body.find(why) != std::string::npos, answer.body);
  };
  refused("/v1/embeddings", {{"input", std::string(21, 'a')}}, "has 21 tokens, the model takes 20");
  refused("/v1/embeddings", {{"input", {{1, 256}}}}, "'input'");
  refused("/v1/embeddings", {{"input", "a"}, {"pooling", "sum"}}, "last, mean, cls or max");
  refused("/v1/embeddings", {{"input", "a"}, {"pooling", 1}}, "last, mean, cls or max");
  refused("/v1/embeddings", {{"input", {"a", ""}}}, "'input' 1: expected a text that is not empty");
  refused("/v1/completions", {{"model", "enc"}, {"prompt", "a"}}, "does not generate text");
  refused("/v2/models/enc/generate", {{"text_input", "a"}}, "does not generate text");
  const auto tensor = [](const Json& shape, const Json& data, const std::string& name = "text_input",
                         const std::string& type = "BYTES") {
    return Json{{"inputs", {{{"name", name}, {"datatype", type}, {"shape", shape}, {"data", data}}}}};
  };
  const std::string infer = "/v2/models/enc/infer";
  refused(infer, tensor({1}, {"a"}, "other"), "'text_input'");
  refused(infer, tensor({1}, {1}, "text_input", "FP32"), "expected BYTES");
  refused(infer, tensor({2}, {"a"}), "1 texts");
  refused(infer, tensor({1}, {1}), "string");
  refused(infer, tensor({0}, Json::array()), "0 texts");
  refused(infer, tensor({1}, {""}), "text 0: expected a text that is not empty");
  CHECK(ask(server.port(), post("x", "Content-Type: image/png\r\n", infer)).status == 400);
}

TEST_CASE("encoders: one without a tokenizer is not served, which is said") {
  Pool pool{1};
  nn::Model model = byte_encoder();
  model.preprocessing.tokenizer = nullptr;
  CHECK_THROWS_WITH(serve({Running::spec_of("enc", std::move(model), pool)}, {}, Interruption()),
                    "enc has no tokenizer: it reads numbers, not text");
}

}  // namespace
}  // namespace mlx::serve::test
