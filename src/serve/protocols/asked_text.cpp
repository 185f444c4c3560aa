// See asked_text.h.
#include "serve/protocols/asked_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <utility>

#include "base/crypto.h"
#include "base/error.h"
#include "serve/protocols/tokens.h"
#include "serve/protocols/visible_text.h"

namespace mlx::serve {
namespace {

// From a text's tokens to its sink.
class SinkAnswer final : public TextAnswer {
 public:
  SinkAnswer(std::unique_ptr<TextSink> sink, VisibleText text, ToolCallReader calls, std::int64_t prompt)
      : sink_(std::move(sink)), text_(std::move(text)), calls_(std::move(calls)) {
    usage_.prompt = prompt;
  }

  bool token(const infer::Drawn& drawn) override {
    ++usage_.completion;
    const std::string seen = text_.add(drawn.token);
    if (drawn.logprobs && !text_.ended()) logprobs_.push_back(*drawn.logprobs);
    std::vector<ToolCall> calls;
    std::string text = calls_.add(seen, calls);
    show(std::move(text), std::move(calls));
    return !text_.ended() && sink_->wants_more();
  }

  void end(const infer::Generated& made) override {
    std::vector<ToolCall> calls;
    std::string last = calls_.add(text_.rest(), calls);
    last += calls_.rest(calls);
    show(std::move(last), std::move(calls));
    const bool stopped = text_.ended() || made.complete;
    usage_.shared = std::min(made.shared, usage_.prompt);
    sink_->end({.why = called_   ? TextEnd::Why::kToolCalls
                       : stopped ? TextEnd::Why::kStop
                                 : TextEnd::Why::kLength,
                .stop = text_.stop(),
                .usage = usage_});
  }

  void failed(const Reply& why) override { sink_->failed(why); }

 private:
  void show(std::string text, std::vector<ToolCall> calls) {
    if (!text.empty() || !logprobs_.empty()) sink_->add(std::move(text), std::exchange(logprobs_, {}));
    for (ToolCall& call : calls) {
      called_ = true;
      sink_->call(std::move(call));
    }
  }

  std::unique_ptr<TextSink> sink_;
  VisibleText text_;
  ToolCallReader calls_;
  TextUsage usage_;
  std::vector<infer::LogProbabilities> logprobs_;
  bool called_ = false;
};

std::uint64_t drawn_seed() {
  std::array<std::uint8_t, 4> bytes{};
  random_bytes(bytes);
  return load_little_endian<std::uint32_t>(bytes.data());
}

std::int64_t room_for(const TextModel& model, const std::vector<std::int32_t>& prompt, const AskedText& text) {
  const auto size = static_cast<std::int64_t>(prompt.size());
  const std::int64_t room = model.context() - size;
  if (prompt.empty()) fail(ErrorKind::kUsage, "the prompt has no tokens");
  if (room < 1)
    throw RefusedRequest(
        400, "context_length_exceeded",
        fmt::format("the prompt has {} tokens, the model's context is {} with the answer", size, model.context()));
  return std::min(room, text.max_tokens.value_or(room));
}

std::tm now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm out{};
  ::localtime_r(&seconds, &out);
  return out;
}

using PieceOf = VisibleText::PieceOf;

void ask(TextModel& model, AskedText text, const std::vector<std::vector<std::int32_t>>& prompts, const Tools& tools,
         const PieceOf& piece, const std::set<std::int32_t>& ends, const ExchangePtr& exchange, const MakeSink& sink) {
  if (!text.seeded) text.sampling.seed = drawn_seed();
  const auto grammar = model.grammars().of(text.shape);
  std::vector<TextJob> jobs;
  for (const std::vector<std::int32_t>& prompt : prompts) {
    for (std::int64_t choice = 0; choice < text.choices; ++choice) {
      TextJob job;
      job.request = {.prompt = prompt,
                     .count = room_for(model, prompt, text),
                     .sampling = text.sampling,
                     .sample = static_cast<std::uint64_t>(choice),
                     .logprobs = text.logprobs,
                     .grammar = grammar};
      job.answer = std::make_unique<SinkAnswer>(sink(static_cast<std::int64_t>(jobs.size()), prompt.size()),
                                                VisibleText(piece, ends, text.stops), ToolCallReader(tools),
                                                static_cast<std::int64_t>(prompt.size()));
      job.exchange = exchange;
      jobs.push_back(std::move(job));
    }
  }
  submit(model, std::move(jobs), exchange);
}

}  // namespace

void ask_texts(TextModel& model, AskedText text, const std::vector<std::vector<std::int32_t>>& prompts,
               const ExchangePtr& exchange, const MakeSink& sink) {
  const data::Tokenizer& tokenizer = model.tokenizer();
  const auto piece = [&tokenizer](std::int32_t token, bool /*first*/) {
    return tokenizer.is_special(token) ? std::string() : std::string(tokenizer.piece(token));
  };
  ask(model, std::move(text), prompts, {}, piece, model.end_tokens(), exchange, sink);
}

void ask_chat(TextModel& model, AskedChat asked, const ExchangePtr& exchange, const MakeSink& sink) {
  const infer::Chat& chat = model.chat();
  const Tools tools = asked.may_call ? tools_of(asked.tools, chat) : Tools{};
  if (asked.forced_tool) {
    if (asked.text.shape.kind != TextShape::Kind::kAny)
      fail(ErrorKind::kUsage, "'tool_choice' and 'response_format' both say what the text must be like");
    asked.text.shape = forced_call(tools, *asked.forced_tool);
  }
  asked.text.shape.blank = chat.strips_blank();
  if (!tools.empty()) asked.variables["tools"] = tools.list;
  const std::vector<std::int32_t> prompt = chat.tokens(chat.prompt(asked.messages, now(), asked.variables));
  const auto piece = [&chat](std::int32_t token, bool first) { return chat.piece(token, first); };
  ask(model, std::move(asked.text), {prompt}, tools, piece, chat.ends(), exchange, sink);
}

}  // namespace mlx::serve
