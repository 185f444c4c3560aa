// Text: whole and as events, with the text that prediction gives; clients that leave, queues that are full, a server
// that stops.
#include "http.h"
#include "infer/batch_generator.h"
#include "infer/generate.h"

namespace mlx::serve::test {
namespace {

constexpr const char* kGenerate = "/v2/models/gpt/generate";
constexpr const char* kStream = "/v2/models/gpt/generate_stream";

std::vector<Named> gpt() {
  std::vector<Named> models;
  models.push_back({"gpt", text_model()});
  return models;
}

std::string ask_for(const std::string& prompt, const std::string& parameters) {
  return fmt::format(R"({{"text_input":"{}","parameters":{{{}}}}})", prompt, parameters);
}
const std::string kEndless = ask_for("a", R"("max_tokens":16777216)");

// What prediction says, as text.
std::string predicted(const infer::Model& model, const std::string& prompt, std::int64_t count,
                      const infer::Sampling& sampling, const std::string& stop = "") {
  const data::Tokenizer& tokenizer = *model.about().preprocessing.tokenizer;
  infer::Generator generator(model);
  const infer::Generated made = generator.generate(infer::prompt_tokens(tokenizer, prompt, "test"), count, sampling, 0,
                                                   tokenizer.encode(stop, "test"), [](std::int32_t /*token*/) {});
  const Json text = tokenizer.decode(made.tokens);
  return Json::parse(text.dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

std::vector<Json> events_of(const std::string& body) {
  std::vector<Json> events;
  std::size_t at = 0;
  for (std::size_t end = 0; (end = body.find("\n\n", at)) != std::string::npos; at = end + 2) {
    REQUIRE(body.compare(at, 6, "data: ") == 0);
    events.push_back(parse_json(body.substr(at + 6, end - at - 6), "event"));
  }
  CHECK(at == body.size());
  return events;
}

TEST_CASE("generate: the text of prediction for the same prompt, parameters and seed") {
  Running server(gpt());
  const infer::Model& model = server.model();
  const auto text = [&](const std::string& prompt, const std::string& parameters) {
    const Answer answer = ask(server.port(), post_to(kGenerate, ask_for(prompt, parameters)));
    CHECK_MESSAGE(answer.status == 200, answer.body);
    return answer.json().value("text_output", "");
  };
  CHECK(text("Ab", R"("max_tokens":40,"temperature":0)") == predicted(model, "Ab", 40, {.temperature = 0}));
  CHECK(text("Ab", "") == predicted(model, "Ab", 200, {.temperature = 0.8}));
  CHECK(text("", R"("max_tokens":5)") == predicted(model, "", 5, {.temperature = 0.8}));
  const infer::Sampling sampling{.repetition = 1.2,
                                 .frequency = -0.5,
                                 .presence = 0.25,
                                 .temperature = 1.5,
                                 .top_k = 9,
                                 .typical = 0.95,
                                 .top_p = 0.9,
                                 .min_p = 0.01,
                                 .seed = 4};
  const std::string parameters =
      R"("max_tokens":30,"temperature":1.5,"top_k":9,"typical":0.95,"top_p":0.9,"min_p":0.01,"repetition_penalty":1.2,)"
      R"("frequency_penalty":-0.5,"presence_penalty":0.25,"seed":4)";
  CHECK(text("x", parameters) == predicted(model, "x", 30, sampling));
  CHECK(text("x", R"("max_tokens":30,"seed":5)") != text("x", R"("max_tokens":30,"seed":6)"));
  CHECK(text("x", R"("max_tokens":0)").empty());

  const Json whole =
      ask(server.port(), post_to(kGenerate, R"({"id":"7","text_input":"x","parameters":{"max_tokens":2}})")).json();
  CHECK(whole["model_name"] == "gpt");
  CHECK(whole["model_version"] == "2");
  CHECK(whole["id"] == "7");
  CHECK(whole["details"]["finish_reason"] == "length");
  const data::Tokenizer& tokenizer = *model.about().preprocessing.tokenizer;
  infer::Generator generator(model);
  const std::vector<std::int32_t> tokens =
      generator.generate({'x'}, 40, {.temperature = 1}, 0, {}, [](std::int32_t /*token*/) {}).tokens;
  for (const std::int32_t token : tokens) {
    const std::string_view piece = tokenizer.piece(token);
    if (piece[0] < 'a' || piece[0] > 'z') continue;  // plain in JSON
    const Json stopped =
        ask(server.port(),
            post_to(kGenerate, ask_for("x", fmt::format(R"("max_tokens":40,"temperature":1,"stop":"{}")", piece))))
            .json();
    CHECK(stopped["details"]["finish_reason"] == "stop_sequence");
    CHECK(stopped["text_output"].get<std::string>().ends_with(piece));
    break;
  }
}

TEST_CASE("bug: a request that came while another was streamed waited for more bytes") {
  Running server(gpt());
  Client client(server.port());
  const std::string stream = post_to(kStream, ask_for("a", R"("max_tokens":200)"));
  client.send(stream + get("/v2") + stream + get("/v2"));
  for (int i = 0; i < 4; ++i) {
    const Answer answer = client.read();
    CHECK(answer.status == 200);
    CHECK((answer.head.find("text/event-stream") != std::string::npos) == (i % 2 == 0));
  }
}

TEST_CASE("generate_stream: an event for each token, together the text of generate; the connection goes on") {
  Running server(gpt());
  const std::string body = ask_for("Ab", R"("max_tokens":50,"seed":3)");
  const Json whole = ask(server.port(), post_to(kGenerate, body)).json();
  Client client(server.port());
  client.send(post_to(kStream, body));
  const Answer answer = client.read();
  CHECK(answer.status == 200);
  CHECK(answer.head.find("Content-Type: text/event-stream\r\n") != std::string::npos);
  std::string text;
  const std::vector<Json> events = events_of(answer.body);
  CHECK((events.size() == 50 || events.size() == 51));  // the last where a character was cut off
  for (const Json& event : events) {
    CHECK(event["model_name"] == "gpt");
    text += event["text_output"].get<std::string>();
  }
  CHECK(text == whole["text_output"]);
  client.send(get("/v2/health/live"));
  CHECK(client.read().status == 200);
  client.send(post_to("/v2/models/gpt/versions/2/generate_stream", ask_for("a", R"("max_tokens":0)")));
  const Answer empty = client.read();
  CHECK(empty.status == 200);
  CHECK(empty.body.empty());
  Client old(server.port());
  old.send(fmt::format("POST {} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{}", kStream, body.size(), body));
  const Answer closing = old.head();
  CHECK(closing.head.find("Connection: close") != std::string::npos);
  CHECK(closing.head.find("chunked") == std::string::npos);
}

TEST_CASE("generate: what is wrong with a request is said with 400") {
  Running server(gpt());
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "expected an object"},
      {"{}", "no 'text_input'"},
      {R"({"text_input":3})", "expected a string"},
      {R"({"text_input":"a","max_tokens":3})", "no key 'max_tokens' here; there are id, text_input and parameters"},
      {R"({"text_input":"a","text_input":"b"})", "'text_input' is given twice"},
      {R"({"text_input":"a"} x)", "more than one"},
      {R"({"text_input":"a","parameters":[]})", "expected an object"},
      {ask_for("a", R"("max_token":1)"), "no parameter 'max_token'; there are max_tokens, temperature, top_k"},
      {ask_for("a", R"("max_tokens":-1)"), "'max_tokens': expected an integer from 0 to 16777216, got -1"},
      {ask_for("a", R"("max_tokens":1.5)"), "got 1.5"},
      {ask_for("a", R"("max_tokens":"1")"), "got \"1\""},
      {ask_for("a", R"("temperature":-0.1)"), "'temperature': expected a number from 0 to 1000, got -0.1"},
      {ask_for("a", R"("temperature":null)"), "got null"},
      {ask_for("a", R"("min_p":2)"), "'min_p': expected a number from 0 to 1, got 2"},
      {ask_for("a", R"("presence_penalty":1e7)"), "'presence_penalty': expected a number from -1000000 to 1000000"},
      {ask_for("a", R"("repetition_penalty":0)"), "'repetition_penalty': expected a number above 0"},
      {ask_for("a", R"("top_p":0)"), "'top_p': expected a number above 0 and at most 1, got 0"},
      {ask_for("a", R"("top_k":16777217)"), "got 16777217"},
      {ask_for("a", R"("seed":9223372036854775808)"), "got 9223372036854775808"},
      {ask_for("a", R"("seed":1,"seed":1)"), "'seed' is given twice"},
  };
  for (const char* target : {kGenerate, kStream}) {
    for (const auto& one : cases) {
      CAPTURE(one.first);
      const Answer answer = ask(server.port(), post_to(target, one.first));
      CHECK(answer.status == 400);
      CHECK_MESSAGE(answer.error().find(one.second) != std::string::npos, answer.body);
    }
    CHECK(ask(server.port(), get(target)).status == 405);
  }
}

TEST_CASE("generate: requests that are sent ahead are answered in order") {
  Running server(gpt());
  const std::string request = post_to(kGenerate, ask_for("a", R"("max_tokens":300)"));
  Client client(server.port());
  client.send(request);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  client.send(request + request + post_to(kStream, ask_for("a", R"("max_tokens":3)")));
  for (int i = 0; i < 4; ++i) CHECK(client.read().status == 200);
  client.send(request.substr(0, 40));
  client.send(request.substr(40));
  CHECK(client.read().status == 200);
}

TEST_CASE("generate: a client that leaves ends its text, waiting or under way") {
  Running server(gpt());
  auto streamed = std::make_unique<Client>(server.port()), whole = std::make_unique<Client>(server.port());
  streamed->send(post_to(kStream, kEndless));
  CHECK(streamed->head().status == 200);
  CHECK_FALSE(streamed->chunk().empty());
  whole->send(post_to(kGenerate, kEndless));
  Client last(server.port());
  last.send(post_to(kGenerate, ask_for("a", R"("max_tokens":3)")));
  whole.reset();
  streamed.reset();
  CHECK(last.read().status == 200);  // none of the long ones is generated to its end
  const std::string metrics = ask(server.port(), get("/metrics")).body;
  CHECK(metrics.find("mlx_inference_seconds_count{model=\"gpt\"} 1\n") != std::string::npos);
  CHECK(metrics.find("mlx_http_requests_total{code=\"499\"} 2\n") != std::string::npos);
}

// Endless texts until one waits, as queue_limit allows; the next is refused.
void fill_the_queue(const kernels::Backend& backend, std::size_t at_once) {
  ServerOptions options;
  options.queue_limit = 1;
  Running server(gpt(), options, backend);
  std::vector<std::unique_ptr<Client>> running;
  for (std::size_t i = 0; i < at_once; ++i) {
    running.push_back(std::make_unique<Client>(server.port()));
    running.back()->send(post_to(kStream, kEndless));
    CHECK(running.back()->head().status == 200);  // it is under way: the queue is empty
  }
  Client waiting(server.port());
  waiting.send(post_to(kGenerate, kEndless));
  const auto queued = [&] {
    return ask(server.port(), get("/metrics")).body.find("mlx_queue_examples{model=\"gpt\"} 1\n") != std::string::npos;
  };
  for (int i = 0; i < 500 && !queued(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(queued());
  const Answer refused = ask(server.port(), post_to(kGenerate, ask_for("a", "")));
  CHECK(refused.status == 429);
  CHECK(refused.head.find("Retry-After: ") != std::string::npos);
  CHECK(refused.error() == "1 texts are waiting; try again later");
  CHECK(ask(server.port(), get("/v2/health/live")).status == 200);
}

TEST_CASE("generate: too many that wait are answered with 429 and Retry-After") {
  fill_the_queue(kernels::backend_named("ref"), infer::BatchGenerator::kMostTexts);
}

TEST_CASE("generate: bug: a burst was refused while all of it could begin") {
  ServerOptions options;
  options.queue_limit = 1;
  Running server(gpt(), options, kernels::backend_named("ref"));
  std::vector<std::unique_ptr<Client>> clients;
  for (std::size_t i = 0; i < infer::BatchGenerator::kMostTexts; ++i) {
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->send(post_to(kGenerate, ask_for("a", R"("max_tokens":30)")));
  }
  for (const auto& client : clients) CHECK(client->read().status == 200);
}

TEST_CASE("generate: kernels whose rows are not independent compute one text after the other") {
  const kernels::Backend best = kernels::best_backend();
  if (best.can().independent_rows) return;
  fill_the_queue(best, 1);
  Running server(gpt(), {}, best);
  const Answer answer = ask(server.port(), post_to(kGenerate, ask_for("Ab", R"("max_tokens":40)")));
  CHECK(answer.json()["text_output"] == predicted(server.model(), "Ab", 40, {.temperature = 0.8}));
}

TEST_CASE("generate: bug: logits that are not finite were said to be the client's fault") {
  nn::Model model = text_model();
  graph::Tensors tensors = model.weights->tensors();
  for (auto& [name, tensor] : tensors) std::fill(tensor.data.begin(), tensor.data.end(), std::uint8_t{0xff});  // NaN
  model.weights = std::make_shared<const graph::Weights>(std::move(tensors));
  std::vector<Named> models = gpt();
  models.push_back({"broken", std::move(model)});
  Running server(std::move(models));
  const Answer answer = ask(server.port(), post_to("/v2/models/broken/generate", ask_for("a", "")));
  CHECK(answer.status == 500);
  CHECK(answer.error() == "broken: the model's logits are not finite");
  CHECK(ask(server.port(), post_to(kGenerate, ask_for("a", R"("max_tokens":3)"))).status == 200);
}

TEST_CASE("generate: the texts of many clients at the same time are those of prediction") {
  Running server(gpt());
  constexpr std::size_t kClients = 20;  // some wait until others have ended
  std::vector<std::unique_ptr<Client>> clients;
  const auto seed_of = [](std::size_t i) { return i + 1; };
  const auto prompt_of = [](std::size_t i) { return std::string(1 + i % 5 * 4, static_cast<char>('a' + i % 3)); };
  for (std::size_t i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<Client>(server.port()));
    clients.back()->send(
        post_to(kGenerate, ask_for(prompt_of(i), fmt::format(R"("max_tokens":{},"seed":{})", 20 + i, seed_of(i)))));
  }
  for (std::size_t i = 0; i < kClients; ++i) {
    CAPTURE(i);
    const Answer answer = clients[i]->read();
    CHECK(answer.status == 200);
    CHECK(answer.json()["text_output"] == predicted(server.model(), prompt_of(i), static_cast<std::int64_t>(20 + i),
                                                    {.temperature = 0.8, .seed = seed_of(i)}));
  }
}

TEST_CASE("told to stop, the server finishes the texts that it has, and cuts off what takes too long") {
  {
    Running server(gpt());
    Client client(server.port()), waiting(server.port());
    client.send(post_to(kStream, ask_for("a", R"("max_tokens":3000)")));
    CHECK(client.head().status == 200);
    waiting.send(post_to(kGenerate, ask_for("a", R"("max_tokens":20)")));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    server.ask_to_stop();
    std::size_t events = 0;
    for (std::string piece = client.chunk(); !piece.empty(); piece = client.chunk())
      for (std::size_t at = 0; (at = piece.find("data: ", at)) != std::string::npos; ++at) ++events;
    CHECK(events >= 3000);
    CHECK(client.closed());
    CHECK(waiting.read().status == 200);
  }
  ServerOptions options;
  options.drain_timeout = 0.1;
  Running server(gpt(), options);
  Client client(server.port());
  client.send(post_to(kStream, kEndless));
  CHECK(client.head().status == 200);
  server.stop();  // returns
}

}  // namespace
}  // namespace mlx::serve::test
