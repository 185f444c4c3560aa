// OpenAI's completions and chats: whole, or as a stream of server-sent events.
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "serve/protocols/json_fields.h"
#include "serve/protocols/openai.h"
#include "serve/protocols/openai_request.h"
#include "serve/protocols/tokens.h"
#include "serve/text_pieces.h"

namespace mlx::serve {
namespace {

std::string dumped(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

const char* reason_text(TextEnd::Why why) {
  return why == TextEnd::Why::kToolCalls ? "tool_calls" : why == TextEnd::Why::kStop ? "stop" : "length";
}

// The answer to one request, of all its choices. Used by the model's thread.
class OpenAiAnswer {
 public:
  OpenAiAnswer(const OpenAiRequest& request, const TextModel& model, bool chat, std::int64_t choices,
               ExchangePtr exchange)
      : exchange_(std::move(exchange)),
        tokenizer_(model.tokenizer()),
        stream_(request.stream),
        include_usage_(request.include_usage),
        chat_(chat),
        of_prompt_(request.chat.text.choices),
        left_(choices),
        choices_(static_cast<std::size_t>(choices)),
        headers_(model.version_header()) {
    const std::string object = chat ? (stream_ ? "chat.completion.chunk" : "chat.completion") : "text_completion";
    common_ = {{"id", fresh_id(chat ? "chatcmpl-" : "cmpl-")},
               {"object", object},
               {"created", static_cast<std::int64_t>(std::time(nullptr))},
               {"model", request.model.empty() ? public_name(model.spec()) : request.model},
               {"system_fingerprint", "mlx-" + model.spec().digest.substr(model.spec().digest.find(':') + 1, 12)}};
  }

  bool streams() const { return stream_; }
  bool chats() const { return chat_; }
  bool failed() const { return failed_; }
  const data::Tokenizer& tokenizer() const { return tokenizer_; }

  void chunk(Json choice) {
    Json body = common_;
    body["choices"] = Json::array({std::move(choice)});
    if (include_usage_) body["usage"] = nullptr;
    event(dumped(body));
  }

  // A choice is complete. Of a stream its last chunk has been sent.
  void end(std::int64_t number, Json choice, const TextUsage& usage) {
    if (failed_) return;
    completion_ += usage.completion;
    if (number % of_prompt_ == 0) {
      prompt_ += usage.prompt;
      shared_ += usage.shared;
    }
    choices_[static_cast<std::size_t>(number)] = std::move(choice);
    if (--left_ > 0) return;
    Json body = common_;
    if (stream_) {
      if (include_usage_) {
        body["choices"] = Json::array();
        body["usage"] = usage_json();
        event(dumped(body));
      }
      event("[DONE]");
      return exchange_->end();
    }
    body["choices"] = choices_;
    body["usage"] = usage_json();
    Reply reply = json_reply(200, dumped(body));
    reply.headers = headers_;
    exchange_->reply(std::move(reply));
  }

  // One choice has failed: so has the request.
  void fail(const Reply& why) {
    if (std::exchange(failed_, true)) return;
    if (!begun_) return exchange_->reply(why);
    event(openai_error(why));
    exchange_->end();
  }

 private:
  Json usage_json() const {
    return {{"prompt_tokens", prompt_},
            {"completion_tokens", completion_},
            {"total_tokens", prompt_ + completion_},
            {"prompt_tokens_details", {{"cached_tokens", shared_}}}};
  }

  void event(const std::string& data) {
    if (!std::exchange(begun_, true)) {
      Reply head = event_stream();
      head.headers += headers_;
      exchange_->begin(std::move(head));
    }
    exchange_->write("data: " + data + "\n\n");
  }

  const ExchangePtr exchange_;
  const data::Tokenizer& tokenizer_;
  const bool stream_, include_usage_, chat_;
  const std::int64_t of_prompt_;  // choices
  std::int64_t left_, prompt_ = 0, shared_ = 0, completion_ = 0;
  std::vector<Json> choices_;
  const std::string headers_;
  Json common_;
  bool begun_ = false, failed_ = false;
};

// The log probabilities of a completion: lists by token, and where each begins in the text.
class CompletionLogprobs {
 public:
  void add(const data::Tokenizer& tokenizer, const std::vector<infer::LogProbabilities>& tokens) {
    for (const infer::LogProbabilities& of : tokens) {
      const std::string piece = TextPieces::whole(std::string(tokenizer.piece(of.drawn.token)));
      tokens_.push_back(piece);
      values_.push_back(std::max(of.drawn.value, kLeastLogprob));
      offsets_.push_back(offset_);
      offset_ += std::ranges::count_if(piece, [](char c) { return (c & 0xc0) != 0x80; });  // characters
      Json top = Json::object();
      for (const infer::LogProbability& one : of.top)
        top[TextPieces::whole(std::string(tokenizer.piece(one.token)))] = std::max(one.value, kLeastLogprob);
      top_.push_back(std::move(top));
    }
  }
  // What was added since the last call.
  Json take() {
    return {{"tokens", std::exchange(tokens_, Json::array())},
            {"token_logprobs", std::exchange(values_, Json::array())},
            {"top_logprobs", std::exchange(top_, Json::array())},
            {"text_offset", std::exchange(offsets_, Json::array())}};
  }

 private:
  Json tokens_ = Json::array(), values_ = Json::array(), top_ = Json::array(), offsets_ = Json::array();
  std::ptrdiff_t offset_ = 0;
};

class OpenAiChoice : public TextSink {
 public:
  OpenAiChoice(std::shared_ptr<OpenAiAnswer> answer, std::int64_t number, bool logprobs)
      : answer_(std::move(answer)), number_(number), logprobs_(logprobs) {}

  void failed(const Reply& why) override { answer_->fail(why); }
  bool wants_more() const override { return !answer_->failed(); }

 protected:
  const std::shared_ptr<OpenAiAnswer> answer_;
  const std::int64_t number_;
  const bool logprobs_;  // whether they were asked for
};

class CompletionChoice final : public OpenAiChoice {
 public:
  using OpenAiChoice::OpenAiChoice;

  void add(std::string text, std::vector<infer::LogProbabilities> logprobs) override {
    values_.add(answer_->tokenizer(), logprobs);
    if (answer_->streams()) return answer_->chunk(json(text, nullptr));
    text_ += text;
  }
  void call(ToolCall /*call*/) override {}
  void end(const TextEnd& end) override {
    Json last = json(text_, reason_text(end.why));
    if (answer_->streams()) answer_->chunk(last);
    answer_->end(number_, std::move(last), end.usage);
  }

 private:
  Json json(const std::string& text, const Json& reason) {
    return {{"index", number_},
            {"text", text},
            {"logprobs", logprobs_ ? values_.take() : Json()},
            {"finish_reason", reason}};
  }

  CompletionLogprobs values_;
  std::string text_;
};

class ChatChoice final : public OpenAiChoice {
 public:
  using OpenAiChoice::OpenAiChoice;

  void add(std::string text, std::vector<infer::LogProbabilities> logprobs) override {
    for (const infer::LogProbabilities& of : logprobs)
      values_.push_back(Json::parse(logprobs_json(answer_->tokenizer(), of)));
    if (answer_->streams()) return delta({{"content", std::move(text)}}, nullptr);
    text_ += text;
  }

  void call(ToolCall call) override {
    Json json = {{"id", fresh_id("call_")},
                 {"type", "function"},
                 {"function", {{"name", std::move(call.name)}, {"arguments", std::move(call.arguments)}}}};
    if (answer_->streams()) {
      Json numbered = {{"index", calls_.size()}};
      numbered.update(json);
      delta({{"tool_calls", Json::array({std::move(numbered)})}}, nullptr);
    }
    calls_.push_back(std::move(json));
  }

  void end(const TextEnd& end) override {
    const Json reason = reason_text(end.why);
    if (answer_->streams()) {
      delta(Json::object(), reason);
      return answer_->end(number_, nullptr, end.usage);
    }
    Json message = {{"role", "assistant"}, {"content", text_}, {"refusal", nullptr}};
    if (text_.empty() && !calls_.empty()) message["content"] = nullptr;
    if (!calls_.empty()) message["tool_calls"] = calls_;
    Json choice = {{"index", number_}, {"message", std::move(message)}};
    choice["logprobs"] = logprobs();
    choice["finish_reason"] = reason;
    answer_->end(number_, std::move(choice), end.usage);
  }

 private:
  Json logprobs() {
    if (!logprobs_) return nullptr;
    return {{"content", std::exchange(values_, Json::array())}, {"refusal", nullptr}};
  }

  void delta(Json change, const Json& reason) {
    if (!std::exchange(begun_, true)) {
      Json first = {{"role", "assistant"}};
      if (!change.contains("content")) first["content"] = nullptr;
      first.update(change);
      change = std::move(first);
    }
    answer_->chunk(
        {{"index", number_}, {"delta", std::move(change)}, {"logprobs", logprobs()}, {"finish_reason", reason}});
  }

  std::string text_;
  Json values_ = Json::array(), calls_ = Json::array();
  bool begun_ = false;
};

// One text, several, or their tokens.
std::vector<std::vector<std::int32_t>> completion_prompts(const Json& prompt, const TextModel& model) {
  const bool numbers = prompt.is_array() && !prompt.empty() && prompt[0].is_number();
  const Json list = prompt.is_array() && !numbers ? prompt : Json::array({prompt});
  std::vector<std::vector<std::int32_t>> out;
  for (const Json& one : list)
    out.push_back(one.is_string() ? model.prompt_tokens(one.get<std::string>(), "'prompt'")
                                  : given_tokens(one, "prompt", model.tokenizer().size()));
  if (out.empty()) refuse_field("prompt", "a text or a list of them", prompt);
  return out;
}

template <class Choice>
MakeSink choices_of(const OpenAiRequest& request, const TextModel& model, bool chat, std::int64_t count,
                    const ExchangePtr& exchange) {
  const auto answer = std::make_shared<OpenAiAnswer>(request, model, chat, count, exchange);
  const bool logprobs = request.chat.text.logprobs != infer::kNoLogprobs;
  return [answer, logprobs](std::int64_t number, std::size_t /*prompt*/) {
    return std::make_unique<Choice>(answer, number, logprobs);
  };
}

}  // namespace

void openai_completions(const Asked& asked) {
  OpenAiRequest request = parse_completion(asked.request.body);
  TextModel& model = text_model_named(asked, request.model);
  const auto prompts = completion_prompts(request.prompt, model);
  const std::int64_t count = static_cast<std::int64_t>(prompts.size()) * request.chat.text.choices;
  if (count > kMostChoices) fail(ErrorKind::kUsage, "{} texts at once: expected at most {}", count, kMostChoices);
  const MakeSink sinks = choices_of<CompletionChoice>(request, model, false, count, asked.exchange);
  ask_texts(model, std::move(request.chat.text), prompts, asked.exchange, sinks);
}

void openai_chat(const Asked& asked) {
  OpenAiRequest request = parse_chat(asked.request.body);
  TextModel& model = text_model_named(asked, request.model);
  const MakeSink sinks = choices_of<ChatChoice>(request, model, true, request.chat.text.choices, asked.exchange);
  ask_chat(model, std::move(request.chat), asked.exchange, sinks);
}

}  // namespace mlx::serve
