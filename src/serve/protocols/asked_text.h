// A text, or an answer in a conversation, as protocols ask for it that are spoken by language models elsewhere:
// OpenAI's, Anthropic's, Ollama's. They say what is asked, and what comes of it goes to a TextSink of theirs.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "serve/protocols/tool_calls.h"
#include "serve/text_model.h"

namespace mlx::serve {

inline constexpr std::int64_t kMostChoices = 128;

struct AskedText {
  infer::Sampling sampling{};  // the seed is drawn if none is asked for
  bool seeded = false;
  std::optional<std::int64_t> max_tokens{};  // else up to the end of the context
  std::vector<std::string> stops{};
  std::int64_t choices = 1;
  std::int64_t logprobs = infer::kNoLogprobs;
  TextShape shape{};
};

struct AskedChat {
  AskedText text{};
  Json messages = Json::array();  // {"role":…,"content":TEXT,…}, as templates take them
  Json tools = Json::array();     // OpenAI's form
  // Which tool must be called: "" for none in particular, nullopt for none at all.
  std::optional<std::string> forced_tool{};
  bool may_call = true;             // whether tools may be called: else the template does not get them
  Json variables = Json::object();  // further ones of the template
};

struct TextUsage {
  std::int64_t prompt = 0, shared = 0, completion = 0;  // tokens
};

struct TextEnd {
  enum class Why : std::uint8_t { kStop, kLength, kToolCalls };
  Why why = Why::kStop;
  std::optional<std::string> stop{};  // the text that stopped it
  TextUsage usage{};
};

// What a protocol makes of a choice. All calls come from one thread.
class TextSink {
 public:
  virtual ~TextSink() = default;
  // The text goes on with this; `logprobs` has those of the tokens since the last call, if they were asked for.
  virtual void add(std::string text, std::vector<infer::LogProbabilities> logprobs) = 0;
  virtual void call(ToolCall call) = 0;
  virtual void end(const TextEnd& end) = 0;
  virtual void failed(const Reply& why) = 0;
  virtual bool wants_more() const { return true; }  // false: the text ends
};

// `prompt`: how many tokens it has.
using MakeSink = std::function<std::unique_ptr<TextSink>(std::int64_t choice, std::size_t prompt)>;

// Queues the choices of each prompt, in order; those of the second are numbered on from those of the first. Throws
// kUsage for a prompt without room for a token, for what no grammar is and so on; replies itself if too many wait.
void ask_texts(TextModel& model, AskedText text, const std::vector<std::vector<std::int32_t>>& prompts,
               const ExchangePtr& exchange, const MakeSink& sink);
void ask_chat(TextModel& model, AskedChat chat, const ExchangePtr& exchange, const MakeSink& sink);

}  // namespace mlx::serve
