// mlx predict --chat: a conversation, a message a line, in a terminal or a pipe; or one answer to messages as JSON.
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <ctime>
#include <deque>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/cli/model_text.h"
#include "cmd/cli/standard_input.h"
#include "cmd/predict_writing.h"
#include "infer/batch_generator.h"
#include "infer/chat.h"
#include "infer/generate.h"

namespace mlx::cmd {
namespace {

constexpr std::size_t kLongestMessages = std::size_t{16} << 20;

void check_chat(const PredictOptions& options) {
  const auto refuse = [](bool given, const char* name) {
    if (given) fail(ErrorKind::kUsage, "--chat and {} do not go together", name);
  };
  refuse(!options.tokens.empty(), "--tokens");
  refuse(!options.logits.empty(), "--logits");
  refuse(!options.stops.empty(), "--stop");
  refuse(!options.out.empty(), "--out");
  refuse(options.count != 1, "--count");
  if (options.inputs.size() > 1)
    fail(ErrorKind::kUsage, "--chat takes one file of messages, got {}", options.inputs.size());
  if (!options.inputs.empty() && !options.prompt.empty())
    fail(ErrorKind::kUsage, "--prompt and {} are both what the model answers: say one of them",
         printable(options.inputs[0]));
}

std::tm local_now() {
  const std::time_t now = std::time(nullptr);
  std::tm out{};
  ::localtime_r(&now, &out);
  return out;
}

Json message(const char* role, std::string content) {
  if (std::string_view(role) != "assistant" && !is_utf8(content))
    fail(ErrorKind::kUsage, "a message of the role {} is not UTF-8", role);
  return {{"role", role}, {"content", std::move(content)}};
}

// What --system begins a conversation with.
Json beginning(const PredictOptions& options) {
  Json messages = Json::array();
  if (!options.system.empty()) messages.push_back(message("system", options.system));
  return messages;
}

// The messages of an INPUT file, of standard input, or of --prompt.
Json given_messages(const PredictOptions& options, Context& context) {
  Json messages = beginning(options);
  if (!options.prompt.empty()) {
    messages.push_back(message("user", options.prompt));
    return messages;
  }
  const bool file = !options.inputs.empty() && options.inputs[0] != "-";
  const std::string what = file ? printable(options.inputs[0]) : "standard input";
  const std::string text = file ? read_text_file(options.inputs[0], kLongestMessages, context)
                                : read_standard_input(kLongestMessages, context.progress().interruption());
  Json given;
  try {
    given = parse_json(text, what);
  } catch (const Error& error) {
    throw Error(ErrorKind::kUsage, error.message, "expected [{\"role\": \"user\", \"content\": \"…\"}]");
  }
  infer::check_messages(given, what);
  if (!messages.empty() && given[0]["role"] == "system")
    fail(ErrorKind::kUsage, "--system and a message of the role system in {}: say one of them", what);
  for (Json& one : given) messages.push_back(std::move(one));
  return messages;
}

struct Answer {
  std::string text;
  std::vector<std::int32_t> tokens;
  std::string end = "length";
  std::vector<infer::LogProbabilities> logprobs;
  Proposals proposals;
  std::size_t prompt_tokens = 0;
  double prompt_seconds = 0, seconds = 0;
};

// Answers, with all that this takes.
class Answerer {
 public:
  Answerer(const PredictOptions& options, const PredictInputs& inputs, Context& context)
      : options_(options),
        sampling_(checked_sampling(options)),
        chat_(inputs.model.about(), inputs.version.name()),
        writing_(writing_of(options, inputs, chat_.ends(), chat_.strips_blank(), context)),
        context_(context) {
    const infer::TextRequest whole{.prompt = {}, .count = inputs.model.signature().context};
    if (infer::can_batch(inputs.model))
      batch_.emplace(inputs.model, infer::cache_positions(inputs.model, whole));
    else
      generator_.emplace(inputs.model, [&context] { context.progress().check_interrupted(); });
  }

  bool speculates() const { return writing_.speculation.ngram > 0 || writing_.speculation.draft; }
  std::string prompt(const Json& messages) const { return chat_.prompt(messages, local_now()); }

  // Adds to `answer` what is drawn, also if it is interrupted. `emit` gets each part of the text.
  void answer(const std::string& prompt, std::uint64_t turn, const std::function<void(std::string_view)>& emit,
              Answer& answer) {
    const std::vector<std::int32_t> tokens = chat_.tokens(prompt);
    answer.prompt_tokens = tokens.size();
    const std::int64_t most = batch_ ? batch_->context() : generator_->context();
    const std::int64_t room = most - static_cast<std::int64_t>(tokens.size());
    if (tokens.empty()) fail(ErrorKind::kUsage, "the chat template makes nothing of the conversation");
    if (room < 1)
      throw Error(ErrorKind::kUsage,
                  fmt::format("the conversation has {} tokens, the model's context {}", tokens.size(), most),
                  "begin a new one");
    struct TurnEnds {};
    const double begun = seconds_now();
    double first = 0;
    const auto take = [&](const infer::Drawn& drawn) {
      if (first == 0) answer.prompt_seconds = (first = seconds_now()) - begun;
      if (chat_.ends(drawn.token)) throw TurnEnds{};
      const std::string piece = chat_.piece(drawn.token, answer.text.empty());
      answer.tokens.push_back(drawn.token);
      if (drawn.logprobs) answer.logprobs.push_back(*drawn.logprobs);
      answer.text += piece;
      emit(piece);
    };
    infer::TextRequest request{.prompt = tokens,
                               .count = std::min(options_.max_tokens, room),
                               .sampling = sampling_,
                               .sample = turn,
                               .emit = take};
    writing_.apply(request);
    try {
      if (draw(std::move(request), answer.proposals).complete) answer.end = "grammar";
    } catch (const TurnEnds&) {
      answer.end = "stop";
    }
    if (first > 0) answer.seconds = seconds_now() - first;
  }

 private:
  // A generator of many texts keeps what the conversation's earlier turns have computed.
  infer::Generated draw(infer::TextRequest request, Proposals& proposals) {
    if (!batch_) return generator_->generate(request);
    const std::int64_t id = batch_->start(std::move(request));
    try {
      for (;;) {
        context_.progress().check_interrupted();
        for (infer::FinishedText& text : batch_->step()) {
          proposals.add(text.text);
          if (text.error) std::rethrow_exception(text.error);
          return std::move(text.text);
        }
      }
    } catch (...) {
      batch_->cancel(id);
      throw;
    }
  }

  const PredictOptions& options_;
  const infer::Sampling sampling_;
  const infer::Chat chat_;
  const Writing writing_;
  Context& context_;
  std::optional<infer::Generator> generator_;
  std::optional<infer::BatchGenerator> batch_;  // instead of it, if the model allows it
};

Json to_json(const Answer& answer, const std::string& prompt, const PredictOptions& options,
             const PredictInputs& inputs, bool speculates) {
  Json out = {{"schema", "mlx.predict/1"},
              {"model", inputs.version.name()},
              {"digest", inputs.version.digest.text()},
              {"kind", "chat"},
              {"prompt", prompt},
              {"seed", options.seed},
              {"speed",
               {{"prompt_tokens", answer.prompt_tokens},
                {"prompt_seconds", answer.prompt_seconds},
                {"tokens", answer.tokens.empty() ? 0 : answer.tokens.size() - 1},
                {"seconds", answer.seconds}}},
              {"message", message("assistant", answer.text)},
              {"texts", {{{"text", answer.text}, {"tokens", answer.tokens}, {"end", answer.end}}}}};
  if (options.logprobs != kNotGiven) out["texts"][0]["logprobs"] = to_json(answer.logprobs, inputs);
  if (speculates) answer.proposals.add_to(out["speed"]);
  return out;
}

// Prints an answer as it is drawn.
std::function<void(std::string_view)> printing(Context& context) {
  return [&context, text = ModelText::of_stdout()](std::string_view piece) mutable {
    if (context.wants_json()) return;
    context.out(text.shown(piece));
    context.flush();
  };
}

int answer_once(const PredictOptions& options, const PredictInputs& inputs, Context& context, Answerer& answerer) {
  const std::string prompt = answerer.prompt(given_messages(options, context));
  Answer answer;
  answerer.answer(prompt, 0, printing(context), answer);
  context.line("");
  if (context.wants_json()) context.json(to_json(answer, prompt, options, inputs, answerer.speculates()));
  return 0;
}

// Standard input, a line at a time.
class Lines {
 public:
  explicit Lines(const Interruption& interruption) : interruption_(interruption) {}

  // nullopt at the end.
  std::optional<std::string> next() {
    std::array<char, 4096> block{};
    std::size_t end = 0;
    while ((end = text_.find('\n')) == std::string::npos) {
      if (text_.size() > kLongestMessages)
        fail(ErrorKind::kUsage, "standard input: a line of more than {}", format_bytes(kLongestMessages));
      const std::size_t got = read_some_input(block.data(), block.size(), interruption_);
      if (got == 0) break;
      text_.append(block.data(), got);
    }
    if (end == std::string::npos && text_.empty()) return {};
    std::string line = text_.substr(0, end);
    text_.erase(0, end == std::string::npos ? end : end + 1);
    if (line.ends_with('\r')) line.pop_back();
    return line;
  }

 private:
  const Interruption& interruption_;
  std::string text_;
};

int converse(const PredictOptions& options, Context& context, Answerer& answerer) {
  const bool terminal = isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
  const Interruption& interruption = context.progress().interruption();
  if (terminal) context.say(context.dim("An empty line ends the conversation, Ctrl-C an answer."));
  Lines lines(interruption);
  Json messages = beginning(options);
  std::deque<Interruption::Deferred> interrupted;  // answers: the conversation goes on
  for (std::uint64_t turn = 0;; ++turn) {
    if (terminal) {
      context.out("> ");
      context.flush();
    }
    const std::optional<std::string> line = lines.next();
    if (!line || trimmed(*line).empty()) break;
    messages.push_back(message("user", *line));
    Answer answer;
    try {
      answerer.answer(answerer.prompt(messages), turn, printing(context), answer);
    } catch (const Error& error) {
      if (!terminal || error.kind != ErrorKind::kInterrupted || interruption.signal() != SIGINT) throw;
      interrupted.emplace_back(interruption);
    }
    context.line("");
    context.flush();
    messages.push_back(message("assistant", answer.text));
  }
  return 0;
}

}  // namespace

int predict_chat(const PredictOptions& options, const PredictInputs& inputs, Context& context) {
  check_chat(options);
  Answerer answerer(options, inputs, context);
  if (context.wants_json() || !options.inputs.empty() || !options.prompt.empty())
    return answer_once(options, inputs, context, answerer);
  return converse(options, context, answerer);
}

}  // namespace mlx::cmd
