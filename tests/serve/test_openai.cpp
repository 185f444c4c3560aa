// OpenAI's interface: completions, chats with tools and schemas, vectors, models; whole and as streams. What
// Anthropic's and Ollama's say of the same.
#include <algorithm>
#include <cmath>

#include "http.h"
#include "infer/chat.h"
#include "infer/generate.h"

namespace mlx::serve::test {
namespace {

constexpr const char* kTemplate =
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.arguments.city "
    "}}"
    "{% endfor %}{% endfor %}{% if tools %}<tool_call>{{ tools[0].function.name }}{% endif %}[assistant]";

// Byte tokens and a chat template; some tokens of its texts end them.
nn::Model chat_model(std::int64_t context = 400) {
  nn::Model model =
      initialized(fmt::format("family = \"gpt2\"\nlayers = 1\nwidth = 16\nheads = 2\ncontext = {}\n", context),
                  nn::InputSpec::tokens(256), 10);
  model.preprocessing.tokenizer = std::make_shared<data::Tokenizer>(data::Tokenizer::bytes());
  model.kept["chat_template.jinja"] = kTemplate;
  return model;
}

std::vector<Named> lm() {
  std::vector<Named> models;
  models.push_back({"lm", chat_model()});
  return models;
}

Json post_json(const Running& server, const std::string& target, const Json& body, int status = 200) {
  const Answer answer = ask(server.port(), post_to(target, body.dump()));
  CHECK_MESSAGE(answer.status == status, answer.body);
  return answer.json();
}

// The text that prediction gives, until a token that is 0 or as many tokens as asked for.
std::string continued(const infer::Model& model, const std::string& prompt, std::int64_t count, std::uint64_t sample) {
  infer::Generator generator(model);
  const data::Tokenizer& tokenizer = *model.about().preprocessing.tokenizer;
  const std::vector<std::int32_t> tokens =
      generator
          .generate(tokenizer.encode(prompt, "test"), count, {.temperature = 0.9, .seed = 5}, sample, {},
                    [](std::int32_t /*token*/) {})
          .tokens;
  const Json text = tokenizer.decode(tokens);
  return Json::parse(text.dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

std::vector<Json> stream_of(const Running& server, const std::string& target, const Json& body) {
  const Answer answer = ask(server.port(), post_to(target, body.dump()));
  CHECK_MESSAGE(answer.status == 200, answer.body);
  CHECK(answer.head.find("Content-Type: text/event-stream\r\n") != std::string::npos);
  std::vector<Json> out;
  bool done = false;
  for (std::size_t at = 0, end = 0; (end = answer.body.find("\n\n", at)) != std::string::npos; at = end + 2) {
    std::string event = answer.body.substr(at, end - at);
    if (event.starts_with("event: ")) event.erase(0, event.find('\n') + 1);
    REQUIRE(event.starts_with("data: "));
    event.erase(0, 6);
    if (event == "[DONE]")
      done = true;
    else
      out.push_back(parse_json(event, "event"));
  }
  CHECK(done == target.starts_with("/v1/c"));
  return out;
}

const Json kCompletion = {{"model", "lm"}, {"prompt", "Ab"}, {"max_tokens", 30}, {"temperature", 0.9}, {"seed", 5}};

Json with(Json body, const Json& more) {
  for (const auto& [key, value] : more.items()) body[key] = value;
  return body;
}

TEST_CASE("openai: completions are prediction's texts, for each prompt and choice, whole and as a stream") {
  Running server(lm());
  const Json whole = post_json(server, "/v1/completions", with(kCompletion, {{"n", 2}, {"prompt", {"Ab", "xyz"}}}));
  CHECK(whole["object"] == "text_completion");
  CHECK(whole["model"] == "lm");
  REQUIRE(whole["choices"].size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(whole["choices"][i]["index"] == i);
    CHECK(whole["choices"][i]["text"] == continued(server.model(), i < 2 ? "Ab" : "xyz", 30, i % 2));
    CHECK(whole["choices"][i]["finish_reason"] == "length");
    CHECK(whole["choices"][i]["logprobs"].is_null());
  }
  CHECK(whole["usage"]["prompt_tokens"] == 5);
  CHECK(whole["usage"]["completion_tokens"] == 120);
  CHECK(whole["usage"]["total_tokens"] == 125);
  CHECK(post_json(server, "/v1/completions", with(kCompletion, {{"prompt", {65, 98}}}))["choices"][0]["text"] ==
        whole["choices"][0]["text"]);

  std::map<int, std::string> texts;
  Json usage;
  for (const Json& event :
       stream_of(server, "/v1/completions",
                 with(kCompletion, {{"n", 2}, {"stream", true}, {"stream_options", {{"include_usage", true}}}}))) {
    usage = event["usage"];
    for (const Json& choice : event["choices"]) texts[choice["index"].get<int>()] += choice["text"].get<std::string>();
  }
  CHECK(texts[0] == whole["choices"][0]["text"]);
  CHECK(texts[1] == whole["choices"][1]["text"]);
  CHECK(usage["completion_tokens"] == 60);
  // Without a seed texts differ.
  const Json free = {{"prompt", "Ab"}, {"max_tokens", 30}};
  CHECK(post_json(server, "/v1/completions", free)["choices"] != post_json(server, "/v1/completions", free)["choices"]);
}

TEST_CASE("openai: a stop is no part of the text, wherever it lies; biases and log probabilities hold") {
  Running server(lm());
  const std::string text = continued(server.model(), "Ab", 30, 0);
  std::size_t at = 5;  // two characters of one byte
  while (static_cast<unsigned char>(text[at]) >= 0x80 || static_cast<unsigned char>(text[at + 1]) >= 0x80) ++at;
  const std::string stop = text.substr(at, 2);
  for (const bool stream : {false, true}) {
    const Json body = with(kCompletion, {{"stop", {"no such text", stop}}, {"stream", stream}});
    std::string seen;
    std::string reason;
    for (const Json& each : stream ? stream_of(server, "/v1/completions", body)
                                   : std::vector<Json>{post_json(server, "/v1/completions", body)}) {
      seen += each["choices"][0]["text"].get<std::string>();
      if (each["choices"][0]["finish_reason"].is_string()) reason = each["choices"][0]["finish_reason"];
    }
    CHECK(seen == text.substr(0, text.find(stop)));
    CHECK(reason == "stop");
  }
  const Json forced =
      post_json(server, "/v1/completions",
                with(kCompletion, {{"logit_bias", {{"113", 100}}}, {"max_tokens", 3}, {"logprobs", 2}}));
  CHECK(forced["choices"][0]["text"] == "qqq");
  const Json& logprobs = forced["choices"][0]["logprobs"];
  CHECK(logprobs["tokens"] == Json({"q", "q", "q"}));
  CHECK(logprobs["text_offset"] == Json({0, 1, 2}));
  CHECK(logprobs["token_logprobs"][0] < 0);
  CHECK(logprobs["top_logprobs"][0].size() == 2);
}

Json chat(const Json& more, const Json& messages = {{{"role", "user"}, {"content", "Hi"}}}) {
  return with({{"model", "lm"}, {"messages", messages}, {"max_tokens", 20}, {"seed", 5}, {"temperature", 0.9}}, more);
}

TEST_CASE("openai: a chat's answer follows what the template makes of the messages") {
  Running server(lm());
  const Json messages = {
      {{"role", "developer"}, {"content", "Be kind."}},
      {{"role", "user"}, {"content", {{{"type", "text"}, {"text", "a"}}, {{"type", "text"}, {"text", "b"}}}}},
      {{"role", "assistant"},
       {"content", nullptr},
       {"tool_calls",
        {{{"id", "1"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", R"({"city":"Bonn"})"}}}}}}},
      {{"role", "tool"}, {"tool_call_id", "1"}, {"content", "rain"}}};
  const std::string prompt = "[system]Be kind.[user]a\nb[assistant]Bonn[tool]rain[assistant]";
  const Json answer =
      post_json(server, "/v1/chat/completions", chat({{"logprobs", true}, {"top_logprobs", 1}}, messages));
  const Json& choice = answer["choices"][0];
  CHECK(choice["message"]["content"] == continued(server.model(), prompt, 20, 0));
  CHECK(choice["message"]["role"] == "assistant");
  CHECK(choice["finish_reason"] == "length");
  CHECK(choice["logprobs"]["content"].size() == 20);
  CHECK(choice["logprobs"]["content"][0]["top_logprobs"].size() == 1);
  CHECK(answer["usage"]["prompt_tokens"] == prompt.size());

  const std::vector<Json> events = stream_of(server, "/v1/chat/completions", chat({{"stream", true}}, messages));
  CHECK(events[0]["choices"][0]["delta"]["role"] == "assistant");
  std::string text;
  for (const Json& event : events) text += event["choices"][0]["delta"].value("content", "");
  CHECK(text == choice["message"]["content"]);
  CHECK(events.back()["choices"][0]["finish_reason"] == "length");
  // Another shape: the answer is JSON, and ends where it is whole.
  const Json schema = {{"type", "object"},
                       {"properties", {{"yes", {{"type", "boolean"}}}}},
                       {"required", {"yes"}},
                       {"additionalProperties", false}};
  const Json format = {{"type", "json_schema"}, {"json_schema", {{"name", "answer"}, {"schema", schema}}}};
  const Json shaped =
      post_json(server, "/v1/chat/completions", chat({{"response_format", format}, {"max_tokens", 300}}))["choices"][0];
  CHECK(shaped["finish_reason"] == "stop");
  CHECK(Json::parse(shaped["message"]["content"].get<std::string>())["yes"].is_boolean());
}

Json tool(const std::string& name) {
  return {{"type", "function"},
          {"function",
           {{"name", name},
            {"parameters",
             {{"type", "object"},
              {"properties", {{"city", {{"$ref", "#/$defs/city"}}}}},
              {"required", {"city"}},
              {"additionalProperties", false},
              {"$defs", {{"city", {{"enum", {"Bonn", "Ulm"}}}}}}}}}}};
}

TEST_CASE("openai: a tool that must be called is called with arguments of its schema") {
  Running server(lm());
  const Json tools = {tool("weather"), tool("time")};
  const Json named = {{"type", "function"}, {"function", {{"name", "time"}}}};
  for (const bool stream : {false, true}) {
    const Json body = chat({{"tools", tools}, {"tool_choice", named}, {"stream", stream}, {"max_tokens", 200}});
    Json call, reason;
    if (stream) {
      for (const Json& event : stream_of(server, "/v1/chat/completions", body)) {
        const Json& choice = event["choices"][0];
        if (choice["delta"].contains("tool_calls")) call = choice["delta"]["tool_calls"][0];
        reason = choice["finish_reason"];
        CHECK(choice["delta"].value("content", Json()).is_null());
      }
    } else {
      const Json choice = post_json(server, "/v1/chat/completions", body)["choices"][0];
      CHECK_MESSAGE(choice["message"]["content"].is_null(), choice.dump());
      call = choice["message"]["tool_calls"][0];
      reason = choice["finish_reason"];
    }
    CHECK(reason == "tool_calls");
    CHECK(call["type"] == "function");
    CHECK(call["function"]["name"] == "time");
    const std::string city = Json::parse(call["function"]["arguments"].get<std::string>())["city"];
    CHECK((city == "Bonn" || city == "Ulm"));
  }
  const Json any = post_json(server, "/v1/chat/completions",
                             chat({{"tools", tools}, {"tool_choice", "required"}, {"max_tokens", 200}}));
  CHECK(any["choices"][0]["message"]["tool_calls"].size() == 1);
  // Told not to call one, the model does not hear of them.
  CHECK(post_json(server, "/v1/chat/completions", chat({{"tools", tools}, {"tool_choice", "none"}}))["usage"] ==
        post_json(server, "/v1/chat/completions", chat({}))["usage"]);
}

TEST_CASE("openai: vectors have the length 1, as numbers and as base64, each by its text alone") {
  Running server(lm());
  const Json many = post_json(server, "/v1/embeddings", {{"model", "lm"}, {"input", {"one", "two words"}}});
  CHECK(many["usage"]["total_tokens"] == 12);
  double squares = 0;
  for (const Json& x : many["data"][1]["embedding"]) squares += x.get<double>() * x.get<double>();
  CHECK(squares == doctest::Approx(1));
  CHECK(post_json(server, "/v1/embeddings", {{"input", "two words"}})["data"][0]["embedding"] ==
        many["data"][1]["embedding"]);
  CHECK(post_json(server, "/v1/embeddings", {{"input", {111, 110, 101}}})["data"][0]["embedding"] ==
        many["data"][0]["embedding"]);
  CHECK(post_json(server, "/v1/embeddings", {{"input", "one"}, {"pooling", "mean"}})["data"] != many["data"][0]);
  std::vector<float> floats;
  for (const Json& x : many["data"][0]["embedding"]) floats.push_back(x.get<float>());
  CHECK(post_json(server, "/v1/embeddings",
                  {{"input", "one"}, {"encoding_format", "base64"}, {"dimensions", 16}})["data"][0]["embedding"] ==
        to_base64({reinterpret_cast<const std::uint8_t*>(floats.data()), floats.size() * sizeof(float)}));
}

TEST_CASE("openai: models by their names; what is wrong is said in its form") {
  std::vector<Named> models = lm();
  models.push_back({"clf", tiny_model()});
  Running server(std::move(models));
  const Json list = ask(server.port(), get("/v1/models")).json();
  CHECK(list["data"][0]["id"] == "lm");
  CHECK(list["data"].size() == 2);
  CHECK(ask(server.port(), get("/v1/models/lm")).json()["object"] == "model");
  const auto refused = [&](const std::string& target, const std::string& body, int status, const std::string& why) {
    CAPTURE(target);
    CAPTURE(body);
    const Answer answer = ask(server.port(), body.empty() ? get(target) : post_to(target, body));
    CHECK(answer.status == status);
    const Json error = answer.json()["error"];
    CHECK_MESSAGE(error["message"].get<std::string>().find(why) != std::string::npos, answer.body);
    return error;
  };
  CHECK(refused("/v1/models/no", "", 404, "this server has 'lm'")["code"] == "model_not_found");
  refused("/v1/nothing", "", 404, "nothing at this path");
  refused("/v1/completions", "", 405, "takes POST");
  CHECK(refused("/v1/completions", R"({"model":"no","prompt":"a"})", 404, "no model 'no'")["type"] ==
        "invalid_request_error");
  refused("/v1/completions", R"({"model":"clf","prompt":"a"})", 400, "does not generate text");
  refused("/v1/completions", "{", 400, "body: line 1");
  refused("/v1/completions", "[]", 400, "expected an object");
  refused("/v1/completions", std::string(200, '[') + std::string(200, ']'), 400, "nested deeper");
  refused("/v1/completions", "{}", 400, "no 'prompt'");
  for (const auto& [field, why] : std::vector<std::pair<std::string, std::string>>{
           {R"("n":0)", "'n': expected an integer from 1 to 128, got 0"},
           {R"("best_of":2)", "'best_of'"},
           {R"("echo":true)", "'echo'"},
           {R"("suffix":"b")", "'suffix'"},
           {R"("nonsense":1)", "there is no key 'nonsense' here"},
           {R"("temperature":"hot")", "'temperature': expected a number"},
           {R"("top_p":1.5)", "'top_p'"},
           {R"("stop":["a",""])", "'stop'"},
           {R"("stream":1)", "'stream': expected true or false, got 1"},
           {R"("logit_bias":{"x":1})", "'logit_bias'"},
           {R"("logit_bias":{"256":1})", "256"},
           {R"("seed":1.5)", "'seed'"},
           {R"("seed":18446744073709551615)", "'seed'"},
           {R"("grammar":"root ::=","response_format":{"type":"json_object"})", "do not go together"},
           {R"("response_format":{"type":"xml"})", "'response_format'"},
           {R"("n":100,"prompt":["a","b"])", "200 texts at once"}}) {
    const bool prompt = field.find("\"prompt\"") != std::string::npos;
    refused("/v1/completions", fmt::format(R"({{"model":"lm",{}{}}})", prompt ? "" : R"("prompt":"a",)", field), 400,
            why);
  }
  Json many = Json::object();
  for (int i = 0; i < 65; ++i) many[std::to_string(i)] = i;
  for (const auto& [field, why] : std::vector<std::pair<std::string, std::string>>{
           {R"("messages":[])", "'messages'"},
           {R"("messages":[{"role":"king","content":"a"}])", "messages[0].role"},
           {R"("messages":[{"role":"user"}])", "messages[0]"},
           {R"("messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}])", "type text"},
           {R"("messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{"}}]}])",
            "tool_calls.arguments"},
           {R"("messages":[{"role":"user","content":"a"}],"tool_choice":"required")", "needs 'tools'"},
           {R"("messages":[{"role":"user","content":"a"}],"top_logprobs":2)", "needs 'logprobs'"},
           {fmt::format(R"("messages":[{{"role":"user","content":"a"}}],"chat_template_kwargs":{})", many.dump()),
            "at most 64 names"},
           {R"("messages":[{"role":"user","content":"a"}],"tools":[{"type":"function"}])", "tool 0"}}) {
    refused("/v1/chat/completions", fmt::format(R"({{"model":"lm",{}}})", field), 400, why);
  }
  CHECK(refused("/v1/completions", Json{{"model", "lm"}, {"prompt", std::string(400, 'a')}}.dump(), 400,
                "the prompt has 400 tokens")["code"] == "context_length_exceeded");
  refused("/v1/embeddings", R"({"model":"lm","input":[]})", 400, "'input'");
  refused("/v1/embeddings", R"({"model":"lm","input":""})", 400, "'input'");
  refused("/v1/embeddings", R"({"model":"lm","input":"a","dimensions":3})", 400, "have 16 numbers");
  refused("/v1/embeddings", R"({"model":"lm","input":[1,999]})", 400, "'input'");
}

TEST_CASE("bug: a grammar whose texts begin in too many ways ended the server") {
  Running server(lm());
  const char* const grammar = "root ::= x{50000} y{50000}\nx ::= \"a\" | \"b\" | \"\"\ny ::= x | \"\"";
  for (int i = 0; i < 2; ++i) {
    const Json why = post_json(server, "/v1/completions", {{"prompt", "a"}, {"grammar", grammar}}, 400);
    CHECK_MESSAGE(why["error"]["message"].get<std::string>().find("4096 ways") != std::string::npos, why.dump());
  }
  CHECK(post_json(server, "/v1/completions", {{"prompt", "a"}, {"max_tokens", 1}})["usage"]["completion_tokens"] == 1);
}

TEST_CASE("bug: what is wrong with the size of a request was not told in the form of its protocol") {
  Running server(lm());
  const std::string large = "POST /v1/messages HTTP/1.1\r\nHost: t\r\nContent-Length: 99999999\r\n\r\n";
  const Answer size = ask(server.port(), large);
  CHECK(size.status == 413);
  CHECK_MESSAGE(size.json()["error"]["type"] == "request_too_large", size.body);
  const Answer fields =
      ask(server.port(), "GET /v1/models HTTP/1.1\r\nHost: t\r\nX: " + std::string(40000, 'x') + "\r\n\r\n");
  CHECK(fields.status == 431);
  CHECK_MESSAGE(fields.json()["error"]["type"] == "invalid_request_error", fields.body);
}

TEST_CASE("openai: the second turn of a chat does not compute the first again") {
  Running server(lm());
  const std::string first(200, 'a');
  const Json one = post_json(server, "/v1/chat/completions", chat({}, {{{"role", "user"}, {"content", first}}}));
  CHECK(one["usage"]["prompt_tokens_details"]["cached_tokens"] == 0);
  const Json two = post_json(server, "/v1/chat/completions",
                             chat({}, {{{"role", "user"}, {"content", first}},
                                       {{"role", "assistant"}, {"content", one["choices"][0]["message"]["content"]}},
                                       {{"role", "user"}, {"content", "And?"}}}));
  CHECK(two["usage"]["prompt_tokens_details"]["cached_tokens"] == 128);
  CHECK(ask(server.port(), get("/metrics")).body.find("mlx_shared_tokens_total{model=\"lm\"} 128\n") !=
        std::string::npos);
}

TEST_CASE("openai: all choices of a client that leaves end, and their places are free") {
  Running server(lm());
  auto leaving = std::make_unique<Client>(server.port());
  leaving->send(
      post_to("/v1/completions", Json{{"prompt", "a"}, {"n", 16}, {"max_tokens", 390}, {"stream", true}}.dump()));
  CHECK(leaving->head().status == 200);
  leaving.reset();
  post_json(server, "/v1/completions", {{"prompt", "a"}, {"max_tokens", 2}});
  const std::string metrics = ask(server.port(), get("/metrics")).body;
  CHECK(metrics.find("mlx_http_requests_total{code=\"499\"} 1\n") != std::string::npos);
  const std::size_t at = metrics.find("mlx_tokens_total{model=\"lm\"} ");
  CHECK(std::stoi(metrics.substr(at + 29)) < 16 * 390);
}

TEST_CASE("anthropic: messages, whole and as a stream, with the tools of the same form") {
  Running server(lm());
  const Json body = {{"model", "lm"},
                     {"max_tokens", 20},
                     {"system", "Be kind."},
                     {"messages", {{{"role", "user"}, {"content", {{{"type", "text"}, {"text", "Hi"}}}}}}}};
  const Json answer = post_json(server, "/v1/messages", body);
  CHECK(answer["type"] == "message");
  CHECK(answer["stop_reason"] == "max_tokens");
  CHECK(answer["content"][0]["type"] == "text");
  CHECK(answer["usage"]["input_tokens"] == std::string("[system]Be kind.[user]Hi[assistant]").size());
  CHECK(answer["usage"]["output_tokens"] == 20);
  const Json tools = {{{"name", "weather"}, {"input_schema", tool("x")["function"]["parameters"]}}};
  const Json calling = with(body, {{"tools", tools}, {"tool_choice", {{"type", "any"}}}, {"max_tokens", 200}});
  const Json call = post_json(server, "/v1/messages", calling);
  CHECK(call["stop_reason"] == "tool_use");
  CHECK(call["content"][0]["name"] == "weather");
  CHECK(call["content"][0]["input"].contains("city"));
  std::vector<std::string> types;
  for (const Json& event : stream_of(server, "/v1/messages", with(calling, {{"stream", true}})))
    types.push_back(event["type"]);
  CHECK(types == std::vector<std::string>{"message_start", "content_block_start", "content_block_delta",
                                          "content_block_stop", "message_delta", "message_stop"});
  // A call and its result come back as the template's messages.
  const Json again = with(
      body,
      {{"messages",
        {{{"role", "user"}, {"content", "Hi"}},
         {{"role", "assistant"},
          {"content", {{{"type", "tool_use"}, {"id", "1"}, {"name", "w"}, {"input", {{"city", "Ulm"}}}}}}},
         {{"role", "user"}, {"content", {{{"type", "tool_result"}, {"tool_use_id", "1"}, {"content", "rain"}}}}}}}});
  CHECK(post_json(server, "/v1/messages", again)["usage"]["input_tokens"] ==
        std::string("[system]Be kind.[user]Hi[assistant]Ulm[tool]rain[assistant]").size());
  const Json refused = post_json(server, "/v1/messages", {{"messages", Json::array()}}, 400);
  CHECK(refused["type"] == "error");
  CHECK(refused["error"]["type"] == "invalid_request_error");
  CHECK(post_json(server, "/v1/messages", with(body, {{"model", "no"}}), 404)["error"]["type"] == "not_found_error");
}

TEST_CASE("ollama: a body of curl's own type is JSON, but not one that a page sends") {
  Running server(lm());
  const std::string body = R"({"model":"lm","prompt":"a","stream":false,"options":{"num_predict":1}})";
  const auto status = [&](const std::string& headers, const std::string& target = "/api/generate") {
    return ask(server.port(), post(body, headers, target)).status;
  };
  const std::string form = "Content-Type: application/x-www-form-urlencoded\r\n";
  CHECK(status(form) == 200);
  CHECK(status(form, "http://somewhere:80/api/generate") == 200);
  CHECK(status(form + "Origin: http://elsewhere\r\n") == 415);
  CHECK(status("Content-Type: text/plain\r\n") == 415);
  CHECK(status(form, "/v1/completions") == 415);
}

TEST_CASE("ollama: chats and texts as lines of JSON, and the list of models") {
  Running server(lm());
  const Json options = {{"seed", 5}, {"num_predict", 12}, {"num_ctx", 4096}};
  const Json messages = {{{"role", "user"}, {"content", "Hi"}}};
  const Json body = {{"model", "lm:latest"}, {"messages", messages}, {"options", options}, {"stream", false}};
  const Json whole = post_json(server, "/api/chat", body);
  CHECK(whole["done"] == true);
  CHECK(whole["done_reason"] == "length");
  CHECK(whole["eval_count"] == 12);
  const Answer lines = ask(server.port(), post_to("/api/chat", with(body, {{"stream", true}}).dump()));
  CHECK(lines.head.find("application/x-ndjson") != std::string::npos);
  std::string text;
  for (std::size_t at = 0, end = 0; (end = lines.body.find('\n', at)) != std::string::npos; at = end + 1)
    text += parse_json(lines.body.substr(at, end - at), "line")["message"]["content"].get<std::string>();
  CHECK(text == whole["message"]["content"]);
  const Json generated =
      post_json(server, "/api/generate", {{"model", "lm"}, {"prompt", "Hi"}, {"options", options}, {"stream", false}});
  CHECK(generated["response"] == whole["message"]["content"]);
  CHECK(post_json(server, "/api/generate",
                  {{"prompt", "Hi"}, {"raw", true}, {"options", options}, {"stream", false}})["prompt_eval_count"] ==
        2);
  const Json shaped = post_json(server, "/api/chat",
                                with(body, {{"format", {{"type", "boolean"}}}, {"options", {{"num_predict", 50}}}}));
  CHECK(Json::parse(shaped["message"]["content"].get<std::string>()).is_boolean());
  const Json listed = ask(server.port(), get("/api/tags")).json()["models"][0];
  CHECK(listed["name"] == "lm");
  CHECK(listed["details"]["families"] == Json::array({listed["details"]["family"]}));
  for (const char* key : {"model", "name"}) {
    const Json shown = post_json(server, "/api/show", {{key, "lm:latest"}});
    CHECK(shown["details"] == listed["details"]);
    CHECK(shown["model_info"]["general.parameter_count"].get<std::int64_t>() > 1000);
    CHECK(shown["capabilities"][0] == "completion");
    CHECK(shown["template"].get<std::string>().find("messages") != std::string::npos);
  }
  CHECK(post_json(server, "/api/show", {{"model", "no"}}, 404)["error"].is_string());
  CHECK(post_json(server, "/api/show", {{"model", "lm"}, {"x", 1}}, 400)["error"].is_string());
  // Vectors are those of OpenAI's interface; what is too long is cut.
  const Json vector = post_json(server, "/v1/embeddings", {{"input", "one"}})["data"][0]["embedding"];
  const Json two = post_json(server, "/api/embed", {{"model", "lm"}, {"input", {"one", "two"}}, {"keep_alive", "5m"}});
  CHECK(two["embeddings"][0] == vector);
  CHECK(two["embeddings"].size() == 2);
  CHECK(two["prompt_eval_count"] == 6);
  CHECK(post_json(server, "/api/embeddings", {{"model", "lm"}, {"prompt", "one"}})["embedding"] == vector);
  const std::string longest(static_cast<std::size_t>(server.model().signature().context), 'a');
  CHECK(post_json(server, "/api/embed", {{"input", longest + "b"}})["embeddings"] ==
        post_json(server, "/api/embed", {{"input", longest}})["embeddings"]);
  CHECK(post_json(server, "/api/embed", {{"input", longest + "b"}, {"truncate", false}}, 400)["error"]
            .get<std::string>()
            .find("the model takes") != std::string::npos);
  for (const Json& wrong : {Json{{"input", ""}}, Json{{"input", Json::array()}}, Json{{"input", 1}}, Json::object(),
                            Json{{"input", "a"}, {"dimensions", 3}}, Json{{"input", "a"}, {"odd", 3}}})
    CHECK(post_json(server, "/api/embed", wrong, 400)["error"].is_string());
  CHECK(post_json(server, "/api/chat", with(body, {{"format", "xml"}}), 400)["error"].get<std::string>().find(
            "'format'") != std::string::npos);
}

}  // namespace
}  // namespace mlx::serve::test
