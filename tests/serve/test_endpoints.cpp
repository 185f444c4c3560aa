// Every endpoint, and every error that a request can be answered with.
#include "base/error.h"
#include "http.h"

namespace mlx::serve::test {
namespace {

TEST_CASE("health, server and model metadata") {
  Running server;
  CHECK(ask(server.port(), get("/v2/health/live")).json() == Json{{"live", true}});
  CHECK(ask(server.port(), get("/v2/health/ready")).json() == Json{{"ready", true}});
  const Json about = ask(server.port(), get("/v2")).json();
  CHECK(about["name"] == "mlx");
  CHECK(about["version"] == "1.2.3");
  CHECK(about["models"] == Json::array({"clf"}));
  for (const char* target : {"/v2/models/clf", "/v2/models/clf/versions/2", "/v2/models/cl%66?x=1"}) {
    CAPTURE(target);
    const Json model = ask(server.port(), get(target)).json();
    CHECK(model["name"] == "clf");
    CHECK(model["versions"] == Json::array({"2"}));
    CHECK(model["inputs"][0]["name"] == "images");
    CHECK(model["inputs"][0]["shape"] == Json::array({-1, 4, 4, 1}));
    CHECK(model["outputs"][0]["shape"] == Json::array({-1, 3}));
  }
  CHECK(ask(server.port(), get("/v2/models/clf/ready")).json()["ready"] == true);
  CHECK(ask(server.port(), get("/v2/models/clf/versions/2/ready")).status == 200);
  const Answer head = ask(server.port(), get("/v2/health/live", "HEAD"));
  CHECK(head.status == 200);
  CHECK(head.head.find("Content-Length: 13") != std::string::npos);
}

TEST_CASE("inference: outputs, id, datatypes and shapes that mean the same") {
  Running server;
  const Json full = ask(server.port(), post(infer(image(1), "[1,4,4,1]", R"(,"id":"q\"7")"))).json();
  CHECK(full["model_name"] == "clf");
  CHECK(full["model_version"] == "2");
  CHECK(full["id"] == "q\"7");
  REQUIRE(full["outputs"].size() == 3);
  CHECK(full["outputs"][0]["name"] == "probabilities");
  CHECK(full["outputs"][0]["shape"] == Json::array({1, 3}));
  double sum = 0;
  for (const Json& p : full["outputs"][0]["data"]) sum += p.get<double>();
  CHECK(sum == doctest::Approx(1).epsilon(1e-6));
  const int best = full["outputs"][2]["data"][0].get<int>();
  CHECK(full["outputs"][1]["data"][0] == tiny_model().labels[static_cast<std::size_t>(best)]);
  const Json nested = parse_json("[[" + image(1) + "]]", "test");
  for (const std::string& same : {infer(image(1), "[1,16]"), infer(image(1), "[1,4,4]"),
                                  infer(image(1), "[1,4,4,1]", "", "FP32"), infer("[" + image(1) + "]", "[1,16]")}) {
    CAPTURE(same);
    CHECK(ask(server.port(), post(same)).json()["outputs"] == full["outputs"]);
  }
  const Json label =
      ask(server.port(), post(infer(image(1), "[1,16]", R"(,"outputs":[{"name":"class"},{"name":"label"}])"))).json();
  REQUIRE(label["outputs"].size() == 2);
  CHECK(label["outputs"][0] == full["outputs"][2]);
  CHECK(label["outputs"][1] == full["outputs"][1]);
  CHECK(ask(server.port(), post(infer(image(1)), "", "/v2/models/clf/versions/2/infer")).status == 200);
}

TEST_CASE("an example's answer does not depend on its batch") {
  ServerOptions options;
  options.max_batch = 8;
  Running server(options);
  std::string all;
  const int count = 21;  // batches of 8, 8 and 5 in 8
  for (int i = 0; i < count; ++i) all += (i ? "," : "") + image(i);
  const Json together = ask(server.port(), post(infer(all, fmt::format("[{},4,4,1]", count)))).json();
  CHECK(together["outputs"][0]["shape"] == Json::array({count, 3}));
  for (int i = 0; i < count; ++i) {
    const Json alone = ask(server.port(), post(infer(image(i)))).json();
    for (std::size_t c = 0; c < 3; ++c)
      CHECK(alone["outputs"][0]["data"][c] == together["outputs"][0]["data"][static_cast<std::size_t>(i) * 3 + c]);
    CHECK(alone["outputs"][2]["data"][0] == together["outputs"][2]["data"][static_cast<std::size_t>(i)]);
  }
}

TEST_CASE("what is wrong with a request is said with 400") {
  Running server;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "expected an object"},
      {"[]", "expected an object"},
      {"{", "expected a key"},
      {R"({"id":"a" "x":1})", "',' or '}'"},
      {"{} {}", "more than one"},
      {"{}", "no 'inputs'"},
      {R"({"inputs":[]})", "0 inputs"},
      {R"({"inputs":[{"name":"images"}]})", "name, datatype, shape and data"},
      {R"({"inputs":[{"name":"x","shape":[1,16],"datatype":"UINT8","data":[1]}]})", "no input 'x'"},
      {infer(image(1), "[1,4,4,1]", "", "INT64"), "UINT8 or FP32"},
      {infer(image(1), "[1,5,4,1]"), "expected [N,4,4,1], [N,4,4] or [N,16]"},
      {infer(image(1), "[]"), "does not fit"},
      {infer(image(1), "[0,16]"), "does not fit"},
      {infer(image(1), "[-1,16]"), "does not fit"},
      {infer(image(1), "[9223372036854775807,16]"), "data holds 16 values"},
      {infer(image(1), "[2,16]"), "data holds 16 values"},
      {infer("", "[1,16]"), "data holds 0 values"},
      {infer("[" + image(1) + "],[" + image(2) + "]", "[2,4,4]"), "nested as [2,16]"},
      {infer("256," + image(1).substr(image(1).find(',') + 1)), "data[0] is 256"},
      {infer("1.5," + image(1).substr(image(1).find(',') + 1)), "data[0] is 1.5"},
      {infer("NaN," + image(1)), "expected a number"},
      {infer("null," + image(1)), "expected a number"},
      {infer("1e39," + image(1), "[1,16]", "", "FP32"), "range of FP32"},
      {infer(image(1), "[1,16]", R"(,"outputs":[{"name":"logits"}])"), "it has probabilities, label, class"},
      {infer(image(1), "[1,16]", R"(,"outputs":[{"name":"label"},{"name":"label"}])"), "twice"},
      {infer(image(1), "[1,16]", R"(,"id":"a","id":"b")"), "'id' is given twice"},
      {infer(image(1), "[1,16]", R"(,"outputs":[{"name":"label","parameters":{"binary_data":1}}])"), "expected true"},
  };
  for (const auto& [body, why] : cases) {
    CAPTURE(body);
    const Answer answer = ask(server.port(), post(body));
    CHECK(answer.status == 400);
    CHECK_MESSAGE(answer.error().find(why) != std::string::npos, answer.body);
  }
  CHECK(ask(server.port(),
            post(infer(image(1), "[1,16]", R"(,"outputs":[{"name":"label","parameters":{"binary_data":false}}])")))
            .status == 200);
}

TEST_CASE("paths, methods, types and lengths") {
  Running server;
  const std::uint16_t port = server.port();
  for (const char* target : {"/nothing", "/v2/models", "/v2/models/other", "/v2/models/clf/versions/3",
                             "/v2/models/clf/x", "/v2/%zz", "*"}) {
    CAPTURE(target);
    const Answer answer = ask(port, get(target));
    CHECK(answer.status == 404);
    CHECK_FALSE(answer.error().empty());
  }
  const Answer wrong = ask(port, get("/v2/models/clf/infer"));
  CHECK(wrong.status == 405);
  CHECK(wrong.head.find("Allow: POST\r\n") != std::string::npos);
  const Answer deleted = ask(port, get("/v2/models/clf", "DELETE"));
  CHECK(deleted.status == 405);
  CHECK(deleted.head.find("Allow: GET, HEAD\r\n") != std::string::npos);
  CHECK(ask(port, post(infer(image(1)), "Content-Type: text/plain\r\n")).status == 415);
  CHECK(ask(port, post(infer(image(1)), "Content-Encoding: br\r\n")).status == 415);
  CHECK(ask(port, post(infer(image(1)), "Content-Type: application/json; charset=utf-8\r\n")).status == 200);
  CHECK(ask(port, "POST /v2/models/clf/infer HTTP/1.1\r\nHost: t\r\n\r\n").status == 411);
  CHECK(ask(port, post(infer(image(1)), "Inference-Header-Content-Length: 3\r\n")).status == 400);
  CHECK(ask(port, post(infer(image(1)), "Expect: miracles\r\n")).status == 417);
  CHECK(ask(port, "GET /v2 HTTP/1.1\r\n\r\n").status == 400);
  CHECK(ask(port, "GARBAGE\r\n\r\n").status == 400);
  for (const char* target : {"http://any:80/v2/health/live", "HTTPS://any/v2/health/live?x=http://b/c"})
    CHECK(ask(port, get(target)).status == 200);
  for (const char* target : {"http://any", "http://any?x=/v2", "http://"})
    CHECK(ask(port, get(target)).head.find("text/html") != std::string::npos);
  for (const char* target : {"ftp://any/v2", "any:443", "/http://any/v2"}) CHECK(ask(port, get(target)).status == 404);
  CHECK(ask(port,
            "POST /v2/models/clf/infer HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\nTransfer-Encoding: "
            "chunked\r\n\r\n0\r\n\r\n")
            .status == 400);
  CHECK(ask(port, "POST /v2/models/clf/infer HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n{}")
            .status == 400);
  CHECK(ask(port, "GET /v2 HTTP/1.1\r\nHost: t\r\nX: " + std::string(40000, 'x') + "\r\n\r\n").status == 431);
}

TEST_CASE("bug: another coding than chunks was taken for chunks, and chunks in HTTP/1.0") {
  Running server;
  const std::string body = infer(image(1));
  const auto status = [&](const std::string& version, const std::string& coding) {
    return ask(server.port(), fmt::format("POST /v2/models/clf/infer HTTP/{}\r\nHost: t\r\nTransfer-Encoding: {}"
                                          "\r\n\r\n{:x}\r\n{}\r\n0\r\n\r\n",
                                          version, coding, body.size(), body))
        .status;
  };
  CHECK(status("1.1", "Chunked") == 200);
  for (const char* const coding : {"gzip, chunked", "gzip", "identity"}) CHECK(status("1.1", coding) == 501);
  CHECK(status("1.0", "chunked") == 400);
}

TEST_CASE("a body larger than allowed is refused before it is read, chunked or not") {
  ServerOptions options;
  options.max_body = 1000;
  Running server(options);
  const Answer sized = ask(server.port(), post(std::string(2'000'000, ' ')));
  CHECK(sized.status == 413);
  CHECK(sized.error().find("1000") != std::string::npos);
  const std::string head = "POST /v2/models/clf/infer HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n";
  CHECK(ask(server.port(), head + "800\r\n" + std::string(0x800, ' ') + "\r\n0\r\n\r\n").status == 413);
  const std::string body = infer(image(1));
  CHECK(ask(server.port(), head + fmt::format("{:x}\r\n{}\r\n0\r\n\r\n", body.size(), body)).status == 200);
}

// As `gzip -n` writes it.
std::string gzipped(const std::string& text) {
  const std::string raw = [&] {  // RFC 1951: blocks that are stored as they are
    std::string out;
    for (std::size_t at = 0; at < text.size() || at == 0; at += 65535) {
      const std::string piece = text.substr(at, 65535);
      const auto size = static_cast<unsigned>(piece.size());
      out += static_cast<char>(at + 65535 >= text.size() ? 1 : 0);
      for (const unsigned part : {size & 255U, size >> 8U, ~size & 255U, (~size >> 8U) & 255U})
        out += static_cast<char>(part);
      out += piece;
    }
    return out;
  }();
  std::uint32_t crc = ~0U;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ (crc & 1U ? 0xedb88320U : 0U);
  }
  std::string out("\x1f\x8b\x08\0\0\0\0\0\0\x03", 10);
  out += raw;
  for (const std::uint32_t word : {~crc, static_cast<std::uint32_t>(text.size())})
    for (int byte = 0; byte < 4; ++byte) out += static_cast<char>((word >> (8 * byte)) & 255U);
  return out;
}

TEST_CASE("a body in gzip is read as what it expands to, which is bounded") {
  ServerOptions options;
  options.max_body = 100'000;
  Running server(options);
  const std::string body = infer(image(1)), gzip = "Content-Encoding: gzip\r\n";
  const auto answer = [&](const std::string& sent, const std::string& headers) {
    return ask(server.port(), post(sent, headers));
  };
  const Json plain = answer(body, "").json();
  CHECK(answer(gzipped(body), gzip).json() == plain);
  CHECK(answer(gzipped(body), "Content-Encoding: X-GZIP\r\nContent-Type: application/json\r\n").json() == plain);
  CHECK(answer(body, "Content-Encoding: identity\r\n").json() == plain);
  CHECK(answer(gzipped(body.substr(0, 20)) + gzipped(body.substr(20)), gzip).json() == plain);
  CHECK(answer(gzipped(body + std::string(99'000, ' ')), gzip).json() == plain);
  for (const std::string& broken : {body, std::string(), gzipped(body).substr(0, 40), std::string("\x1f\x8b"),
                                    gzipped(body).replace(20, 1, "~"), gzipped(body) + "behind"}) {
    CAPTURE(broken.size());
    const Answer refused = answer(broken, gzip);
    CHECK(refused.status == 400);
    CHECK_FALSE(refused.error().empty());
  }
  CHECK(answer(body, gzip + gzip).status == 415);
  CHECK(answer(body, "Content-Encoding: gzip, gzip\r\n").status == 415);
}

TEST_CASE("metrics count what happened") {
  Running server;
  CHECK(ask(server.port(), post(infer(image(1) + "," + image(2), "[2,16]"))).status == 200);
  CHECK(ask(server.port(), get("/nowhere")).status == 404);
  const Answer answer = ask(server.port(), get("/metrics"));
  CHECK(answer.head.find("text/plain; version=0.0.4") != std::string::npos);
  for (const char* line :
       {"mlx_http_requests_total{code=\"200\"} 1\n", "mlx_http_requests_total{code=\"404\"} 1\n",
        "mlx_examples_total{model=\"clf\"} 2\n", "mlx_batch_examples_bucket{model=\"clf\",le=\"2\"} 1\n",
        "mlx_inference_seconds_count{model=\"clf\"} 1\n", "mlx_queue_examples{model=\"clf\"} 0\n",
        "\nmlx_weights_bytes ",
        "mlx_model_info{model=\"clf\",version=\"2\",digest=\"sha256:00\",precision=\"f32\"} 1\n"}) {
    CAPTURE(line);
    CHECK_MESSAGE(answer.body.find(line) != std::string::npos, answer.body);
  }
}

TEST_CASE("several models answer at once, each under its name") {
  std::vector<Named> models = clf();
  models.push_back({"price", row_model()});
  models.push_back({"team/gpt", text_model()});
  models.push_back({"clf2", tiny_model()});
  Running server(std::move(models));
  const std::uint16_t port = server.port();
  CHECK(ask(port, get("/v2")).json()["models"] == Json::array({"clf", "price", "team/gpt", "clf2"}));
  CHECK(ask(port, get("/v2/health/ready")).status == 200);
  for (const char* name : {"clf", "price", "team/gpt", "team%2Fgpt", "clf2"}) {
    CAPTURE(name);
    CHECK(ask(port, get(fmt::format("/v2/models/{}/ready", name))).json()["ready"] == true);
    CHECK(ask(port, get(fmt::format("/v2/models/{}/versions/2", name))).status == 200);
    CHECK(ask(port, get(fmt::format("/v2/models/{}/versions/3", name))).status == 404);
  }
  const Json index = ask(port, post_to("/v2/repository/index", "")).json();
  REQUIRE(index.size() == 4);
  CHECK(index[2] == Json{{"name", "team/gpt"}, {"version", "2"}, {"state", "READY"}, {"reason", ""}});
  CHECK(ask(port, post_to("/v2/repository/index", R"({"ready":true})")).json().size() == 4);
  CHECK(ask(port, post_to("/v2/repository/index", R"({"ready":1})")).status == 400);
  CHECK(ask(port, "POST /v2/repository/index HTTP/1.1\r\nHost: t\r\n\r\n").json().size() == 4);
  CHECK(ask(port, get("/v2/repository/index")).status == 405);
  CHECK(ask(port, get("/v2/models/other")).error() ==
        "no model 'other' here; this server has 'clf', version 2; 'price', version 2; 'team/gpt', version 2; 'clf2', "
        "version 2");

  const Json first = ask(port, post(infer(image(1)))).json(),
             again = ask(port, post(infer(image(1)), "", "/v2/models/clf2/infer")).json();
  CHECK(again["model_name"] == "clf2");
  CHECK(again["outputs"] == first["outputs"]);
  CHECK(ask(port, post_to("/v2/models/price/infer", R"({"rows":[{"rooms":3,"city":"Bonn"}]})")).status == 200);
  CHECK(ask(port, post_to("/v2/models/team/gpt/generate", R"({"text_input":"a","parameters":{"max_tokens":3}})"))
            .json()["model_name"] == "team/gpt");
  CHECK(ask(port, post(infer(image(1)), "", "/v2/models/team/gpt/infer")).error() ==
        "'team/gpt' generates text; POST /v2/models/team/gpt/generate asks it");
  CHECK(ask(port, post_to("/v2/models/price/generate", R"({"text_input":"a"})")).error() ==
        "'price' does not generate text; POST /v2/models/price/infer asks it");

  const std::string metrics = ask(port, get("/metrics")).body;
  for (const char* line : {"mlx_examples_total{model=\"clf\"} 1\n", "mlx_examples_total{model=\"clf2\"} 1\n",
                           "mlx_examples_total{model=\"price\"} 1\n", "mlx_tokens_total{model=\"team/gpt\"} 3\n",
                           "mlx_inference_seconds_count{model=\"team/gpt\"} 1\n"}) {
    CAPTURE(line);
    CHECK_MESSAGE(metrics.find(line) != std::string::npos, metrics);
  }
  CHECK(metrics.find("# TYPE mlx_examples_total counter") == metrics.rfind("# TYPE mlx_examples_total counter"));
}

}  // namespace
}  // namespace mlx::serve::test
