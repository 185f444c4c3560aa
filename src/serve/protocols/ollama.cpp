// Ollama's chats and texts, as lines of JSON, and its list of models. Source: Ollama's API reference (docs/api.md).
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "serve/protocols/asked_text.h"
#include "serve/protocols/json_fields.h"
#include "serve/protocols/openai.h"
#include "serve/protocols/openai_request.h"
#include "serve/protocols/tokens.h"

namespace mlx::serve {
namespace {

struct OllamaRequest {
  std::string model, prompt, system;
  AskedChat chat{};
  bool stream = true, raw = false;
};

struct OllamaOption {
  const char* name;
  void (*read)(const Json& value, AskedText& to);
};
// Others are about how the other program runs a model, and say nothing here.
const OllamaOption kOllamaOptions[] = {
    {"num_predict",
     [](const Json& v, AskedText& to) {  // -1, -2: as many as fit
       const std::int64_t most = integer_of(v, "num_predict", -2, 1 << 24);
       to.max_tokens = most < 0 ? std::nullopt : std::optional(most);
     }},
    {"temperature",
     [](const Json& v, AskedText& to) { to.sampling.temperature = number_of(v, "temperature", 0, 1000); }},
    {"top_k", [](const Json& v, AskedText& to) { to.sampling.top_k = integer_of(v, "top_k", 0, 1 << 24); }},
    {"top_p", [](const Json& v, AskedText& to) { to.sampling.top_p = number_of(v, "top_p", 1e-9, 1); }},
    {"min_p", [](const Json& v, AskedText& to) { to.sampling.min_p = number_of(v, "min_p", 0, 1); }},
    {"typical_p", [](const Json& v, AskedText& to) { to.sampling.typical = number_of(v, "typical_p", 1e-6, 1); }},
    {"repeat_penalty",
     [](const Json& v, AskedText& to) {
       to.sampling.repetition = number_of(v, "repeat_penalty", infer::kLeastRepetition, 1000);
     }},
    {"frequency_penalty",
     [](const Json& v, AskedText& to) { to.sampling.frequency = number_of(v, "frequency_penalty", -1e6, 1e6); }},
    {"presence_penalty",
     [](const Json& v, AskedText& to) { to.sampling.presence = number_of(v, "presence_penalty", -1e6, 1e6); }},
    {"seed",
     [](const Json& v, AskedText& to) {
       to.sampling.seed =
           static_cast<std::uint64_t>(integer_of(v, "seed", 0, std::numeric_limits<std::int64_t>::max()));
       to.seeded = true;
     }},
    {"stop", [](const Json& v, AskedText& to) { to.stops = texts_of(v, "stop", 64); }},
};

void read_options(const Json& options, AskedText& to) {
  for (const auto& [key, value] : object_of(options, "options").items()) {
    const auto* const found = std::ranges::find(kOllamaOptions, key, &OllamaOption::name);
    if (found != std::end(kOllamaOptions) && !value.is_null()) found->read(value, to);
  }
}

// "json", or a schema.
void read_format(const Json& value, AskedText& to) {
  if (value == "") return;
  if (value != "json" && !value.is_object()) refuse_field("format", "json or a JSON schema", value);
  to.shape = {.kind = TextShape::Kind::kSchema,
              .source = value == "json" ? R"({"type":"object"})" : value.dump(),
              .what = "'format'"};
}

void read_ollama_field(const std::string& key, const Json& value, OllamaRequest& to) {
  if (value.is_null()) return;
  if (key == "model") {
    to.model = text_of(value, key);
    if (to.model.ends_with(":latest")) to.model.resize(to.model.size() - 7);
  } else if (key == "prompt") {
    to.prompt = text_of(value, key);
  } else if (key == "system") {
    to.system = text_of(value, key);
  } else if (key == "raw") {
    to.raw = flag_of(value, key);
  } else if (key == "stream") {
    to.stream = flag_of(value, key);
  } else if (key == "format") {
    read_format(value, to.chat.text);
  } else if (key == "options") {
    read_options(value, to.chat.text);
  } else if (key == "tools") {
    to.chat.tools = list_of(value, key);
  } else if (key == "messages") {
    for (std::size_t i = 0; i < list_of(value, key).size(); ++i)
      to.chat.messages.push_back(template_message(value[i], fmt::format("messages[{}]", i)));
  } else if (key == "images" || key == "suffix" || key == "template") {
    if (!value.empty() && value != "") refuse_field(key, "nothing: it is not supported", value);
  } else if (key != "keep_alive" && key != "think" && key != "context") {
    fail(ErrorKind::kUsage, "there is no key '{}' here", key.substr(0, 40));
  }
}

OllamaRequest parse_ollama(std::string_view body) {
  OllamaRequest out;
  out.chat.text.sampling = {.temperature = 0.8, .top_k = 40, .top_p = 0.9};
  const Json json = body_of(body);
  for (const auto& [key, value] : json.items()) read_ollama_field(key, value, out);
  return out;
}

// Lines while the text grows and one at its end, or only that.
class OllamaAnswer final : public TextSink {
 public:
  OllamaAnswer(const OllamaRequest& request, const TextModel& model, bool chat, ExchangePtr exchange)
      : exchange_(std::move(exchange)),
        model_(request.model.empty() ? public_name(model.spec()) : request.model),
        headers_(model.version_header()),
        stream_(request.stream),
        chat_(chat),
        started_(seconds_now()) {}

  void add(std::string text, std::vector<infer::LogProbabilities> /*logprobs*/) override {
    if (first_ == 0) first_ = seconds_now();
    if (stream_) return write(line(text, {}, false));
    text_ += text;
  }

  void call(ToolCall call) override {
    Json json = {{"function", {{"name", call.name}, {"arguments", Json::parse(call.arguments)}}}};
    if (stream_) return write(line("", Json::array({std::move(json)}), false));
    calls_.push_back(std::move(json));
  }

  void end(const TextEnd& end) override {
    const double now = seconds_now(), first = first_ == 0 ? now : first_;
    const auto nanoseconds = [](double seconds) { return static_cast<std::int64_t>(seconds * 1e9); };
    Json last = line(text_, calls_, true);
    last["done_reason"] = end.why == TextEnd::Why::kLength ? "length" : "stop";
    last["total_duration"] = nanoseconds(now - started_);
    last["load_duration"] = 0;
    last["prompt_eval_count"] = end.usage.prompt;
    last["prompt_eval_duration"] = nanoseconds(first - started_);
    last["eval_count"] = end.usage.completion;
    last["eval_duration"] = nanoseconds(now - first);
    if (stream_) {
      write(last);
      return exchange_->end();
    }
    Reply reply = json_reply(200, last.dump());
    reply.headers = headers_;
    exchange_->reply(std::move(reply));
  }

  void failed(const Reply& why) override {
    if (!begun_) return exchange_->reply(why);
    exchange_->write(error_json(why.error) + "\n");
    exchange_->end();
  }

 private:
  Json line(const std::string& text, const Json& calls, bool done) const {
    Json out = {{"model", model_}, {"created_at", iso_time(unix_micros())}};
    if (chat_) {
      out["message"] = {{"role", "assistant"}, {"content", text}};
      if (!calls.empty()) out["message"]["tool_calls"] = calls;
    } else {
      out["response"] = text;
    }
    out["done"] = done;
    return out;
  }

  void write(const Json& json) {
    if (!std::exchange(begun_, true)) exchange_->begin({.type = "application/x-ndjson", .headers = headers_});
    exchange_->write(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }

  const ExchangePtr exchange_;
  const std::string model_, headers_;
  const bool stream_, chat_;
  const double started_;
  double first_ = 0;
  std::string text_;
  Json calls_ = Json::array();
  bool begun_ = false;
};

MakeSink answers_of(const OllamaRequest& request, const TextModel& model, bool chat, const ExchangePtr& exchange) {
  return [&request, &model, chat, &exchange](std::int64_t /*choice*/, std::size_t /*prompt*/) {
    return std::make_unique<OllamaAnswer>(request, model, chat, exchange);
  };
}

void ollama_chat(const Asked& asked) {
  const OllamaRequest request = parse_ollama(asked.request.body);
  TextModel& model = text_model_named(asked, request.model);
  if (request.chat.messages.empty()) refuse_field("messages", "at least one message", request.chat.messages);
  ask_chat(model, request.chat, asked.exchange, answers_of(request, model, true, asked.exchange));
}

// A model with a chat template answers the prompt, others go on with it.
void ollama_generate(const Asked& asked) {
  OllamaRequest request = parse_ollama(asked.request.body);
  TextModel& model = text_model_named(asked, request.model);
  const MakeSink answers = answers_of(request, model, false, asked.exchange);
  if (request.raw || !model.can_chat())
    return ask_texts(model, request.chat.text, {model.prompt_tokens(request.prompt, "'prompt'")}, asked.exchange,
                     answers);
  if (!request.system.empty()) request.chat.messages.push_back({{"role", "system"}, {"content", request.system}});
  request.chat.messages.push_back({{"role", "user"}, {"content", request.prompt}});
  ask_chat(model, request.chat, asked.exchange, answers);
}

void ollama_tags(const Asked& asked) {
  Json list = Json::array();
  for (const auto& model : asked.models.all()) {
    const ModelSpec& spec = model->spec();
    const std::string name = public_name(spec), digest = spec.digest.substr(spec.digest.find(':') + 1);
    list.push_back({{"name", name},
                    {"model", name},
                    {"modified_at", iso_time(spec.created * 1'000'000)},
                    {"size", model->model().about().weights->bytes()},
                    {"digest", digest},
                    {"details",
                     {{"format", "mlx"},
                      {"family", model->model().about().family},
                      {"quantization_level", model->model().about().precision}}}});
  }
  asked.exchange->reply(json_reply(200, Json{{"models", std::move(list)}}.dump()));
}

void ollama_version(const Asked& asked) {
  asked.exchange->reply(json_reply(200, Json{{"version", asked.options.program_version}}.dump()));
}

std::string ollama_error(const Reply& reply) {
  return error_json(reply.error);
}

constexpr Route kOllamaRoutes[] = {
    {Route::At::kPath, "/api/chat", "POST", true, Need::kInfer, ollama_chat},
    {Route::At::kPath, "/api/generate", "POST", true, Need::kInfer, ollama_generate},
    {Route::At::kPath, "/api/tags", "GET, HEAD", false, Need::kInfer, ollama_tags},
    {Route::At::kPath, "/api/version", "GET, HEAD", false, Need::kInfer, ollama_version},
};

}  // namespace

const Protocol kOllama = {"/api/", "", kOllamaRoutes, ollama_error};

}  // namespace mlx::serve
