// Ollama's chats and texts, as lines of JSON, its vectors, and what it says of its models. Source: Ollama's API
// reference (docs/api.md).
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "graph/session/summary.h"
#include "nn/kept_files.h"
#include "serve/embeddings.h"
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
  bool stream = true, raw = false, unload = false;
};

std::string without_tag(std::string name) {
  constexpr std::string_view kLatest = ":latest";
  if (name.ends_with(kLatest)) name.resize(name.size() - kLatest.size());
  return name;
}

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
    to.model = without_tag(text_of(value, key));
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
  } else if (key == "keep_alive") {
    to.unload = value == 0 || value == "0";
  } else if (key != "think" && key != "context") {
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

// What is asked without a text: its clients load and unload models so. Here all models stay loaded.
void answer_to_loading(const OllamaRequest& request, const TextModel& model, bool chat, const ExchangePtr& exchange) {
  Json out = {{"model", request.model.empty() ? public_name(model.spec()) : request.model},
              {"created_at", iso_time(unix_micros())},
              {"done", true},
              {"done_reason", request.unload ? "unload" : "load"}};
  if (chat)
    out["message"] = {{"role", "assistant"}, {"content", ""}};
  else
    out["response"] = "";
  Reply reply = json_reply(200, out.dump());
  reply.headers = model.version_header();
  exchange->reply(std::move(reply));
}

void ollama_chat(const Asked& asked) {
  const OllamaRequest request = parse_ollama(asked.request.body);
  TextModel& model = text_model_named(asked, request.model);
  if (request.chat.messages.empty()) return answer_to_loading(request, model, true, asked.exchange);
  ask_chat(model, request.chat, asked.exchange, answers_of(request, model, true, asked.exchange));
}

// A model with a chat template answers the prompt, others go on with it.
void ollama_generate(const Asked& asked) {
  OllamaRequest request = parse_ollama(asked.request.body);
  TextModel& model = text_model_named(asked, request.model);
  if (request.prompt.empty()) return answer_to_loading(request, model, false, asked.exchange);
  const MakeSink answers = answers_of(request, model, false, asked.exchange);
  if (request.raw || !model.can_chat())
    return ask_texts(model, request.chat.text, {model.prompt_tokens(request.prompt, "'prompt'")}, asked.exchange,
                     answers);
  if (!request.system.empty()) request.chat.messages.push_back({{"role", "system"}, {"content", request.system}});
  request.chat.messages.push_back({{"role", "user"}, {"content", request.prompt}});
  ask_chat(model, request.chat, asked.exchange, answers);
}

std::string family_of(const nn::Model& about) {
  const std::string architecture = nn::architecture_of(about);
  return architecture.empty() ? about.family : architecture;
}

std::int64_t parameters_of(const nn::Model& about) {
  return graph::summarize(about.graph, std::vector<std::int64_t>(about.graph.symbols.size(), 1)).parameters;
}

// "7.6B", "124.4M", "3.1K"
std::string size_of(std::int64_t count) {
  const auto number = static_cast<double>(count);
  return count >= 1'000'000'000 ? fmt::format("{:.1f}B", number / 1e9)
         : count >= 1'000'000   ? fmt::format("{:.1f}M", number / 1e6)
                                : fmt::format("{:.1f}K", number / 1e3);
}

Json details_of(const nn::Model& about) {
  const std::string family = family_of(about);
  return {{"parent_model", ""},
          {"format", "mlx"},
          {"family", family},
          {"families", Json::array({family})},
          {"parameter_size", size_of(parameters_of(about))},
          {"quantization_level", about.precision}};
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
                    {"details", details_of(model->model().about())}});
  }
  asked.exchange->reply(json_reply(200, Json{{"models", std::move(list)}}.dump()));
}

struct EmbedRequest {
  std::string model;
  std::vector<std::string> texts{};
  bool truncate = true;
  std::optional<std::int64_t> dimensions{};
};

// `text`: the key of what becomes vectors. Options are about how the other program runs a model.
EmbedRequest parse_embed(std::string_view body, std::string_view text) {
  EmbedRequest out;
  const Json json = body_of(body);
  for (const auto& [key, value] : json.items()) {
    if (value.is_null() || key == "options" || key == "keep_alive") continue;
    if (key == "model")
      out.model = without_tag(text_of(value, key));
    else if (key == text)
      out.texts = texts_of(value, key, text == "input" ? kMostVectors : 1);
    else if (key == "truncate")
      out.truncate = flag_of(value, key);
    else if (key == "dimensions")
      out.dimensions = integer_of(value, key, 0, 1 << 24);
    else
      fail(ErrorKind::kUsage, "there is no key '{}' here", key.substr(0, 40));
  }
  if (out.texts.empty()) fail(ErrorKind::kUsage, "the request has no '{}'", text);
  return out;
}

// `answer` makes an answer of the vectors and the number of tokens.
void embed(const Asked& asked, const EmbedRequest& request,
           const std::function<Json(const std::vector<std::vector<float>>&, std::size_t)>& answer) {
  ServedModel& model = vector_model_named(asked, request.model);
  const Vectors vectors = model.vectors();
  EmbeddingJob job{.pooling = vectors.pooling, .exchange = asked.exchange};
  std::size_t tokens = 0;
  for (const std::string& text : request.texts) {
    job.texts.push_back(vector_tokens(vectors, text, fmt::format("text {}", job.texts.size()), request.truncate));
    tokens += job.texts.back().size();
  }
  const std::string headers = model.version_header();
  job.answer = [answer, tokens, headers, wanted = request.dimensions](const std::vector<std::vector<float>>& made) {
    const auto width = static_cast<std::int64_t>(made.at(0).size());
    if (wanted && *wanted != 0 && *wanted != width)
      fail(ErrorKind::kUsage, "'dimensions': this model's vectors have {} numbers", width);
    Reply reply = json_reply(200, answer(made, tokens).dump());
    reply.headers = headers;
    return reply;
  };
  asked.exchange->watch();
  if (!vectors.embeddings.submit(std::move(job)))
    asked.exchange->reply(full_reply("too many texts are waiting for their vectors; try again later"));
}

void ollama_embed(const Asked& asked) {
  const EmbedRequest request = parse_embed(asked.request.body, "input");
  embed(
      asked, request,
      [name = request.model, started = seconds_now()](const std::vector<std::vector<float>>& made, std::size_t tokens) {
        const auto nanoseconds = static_cast<std::int64_t>((seconds_now() - started) * 1e9);
        return Json{{"model", name},
                    {"embeddings", made},
                    {"total_duration", nanoseconds},
                    {"load_duration", 0},
                    {"prompt_eval_count", tokens}};
      });
}

// The form before /api/embed: one text.
void ollama_embeddings(const Asked& asked) {
  embed(asked, parse_embed(asked.request.body, "prompt"),
        [](const std::vector<std::vector<float>>& made, std::size_t /*tokens*/) {
          return Json{{"embedding", made.at(0)}};
        });
}

// The details of a model, as its list has them.
void ollama_show(const Asked& asked) {
  std::string name;
  const Json json = body_of(asked.request.body);
  for (const auto& [key, value] : json.items()) {
    if (key == "model" || key == "name")
      name = without_tag(text_of(value, key));
    else if (key != "verbose")
      fail(ErrorKind::kUsage, "there is no key '{}' here", key.substr(0, 40));
  }
  ServedModel& model = vector_model_named(asked, name);
  const nn::Model& about = model.model().about();
  const std::string family = family_of(about), chat = nn::chat_template(about).value_or("");
  Json can = Json::array({model.writes_text() ? "completion" : "embedding"});
  if (model.writes_text() && chat.find("tools") != std::string::npos) can.push_back("tools");
  Json info = {{"general.architecture", family},
               {"general.parameter_count", parameters_of(about)},
               {family + ".context_length", model.model().signature().context}};
  asked.exchange->reply(json_reply(200, Json{{"modelfile", ""},
                                             {"parameters", ""},
                                             {"template", chat},
                                             {"details", details_of(about)},
                                             {"model_info", std::move(info)},
                                             {"modified_at", iso_time(model.spec().created * 1'000'000)},
                                             {"capabilities", std::move(can)}}
                                            .dump(-1, ' ', false, Json::error_handler_t::replace)));
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
    {Route::At::kPath, "/api/embed", "POST", true, Need::kInfer, ollama_embed},
    {Route::At::kPath, "/api/embeddings", "POST", true, Need::kInfer, ollama_embeddings},
    {Route::At::kPath, "/api/show", "POST", true, Need::kInfer, ollama_show},
    {Route::At::kPath, "/api/tags", "GET, HEAD", false, Need::kInfer, ollama_tags},
    {Route::At::kPath, "/api/version", "GET, HEAD", false, Need::kInfer, ollama_version},
};

}  // namespace

const Protocol kOllama = {"/api/", "", kOllamaRoutes, ollama_error, true};

}  // namespace mlx::serve
