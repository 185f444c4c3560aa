// mlx predict for language models: the text that follows a prompt, printed as it comes.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/cli/model_text.h"
#include "cmd/cli/standard_input.h"
#include "cmd/predict_writing.h"
#include "cmd/prediction_file.h"
#include "infer/batch_generator.h"
#include "infer/chat.h"
#include "infer/generate.h"
#include "registry/repository.h"

namespace mlx::cmd {
namespace {

constexpr std::int64_t kMostTokens = 1 << 24, kMostTexts = 1 << 16;
constexpr double kLargestLogit = 1e6;  // of a bias or penalty
constexpr std::size_t kLongestPrompt = std::size_t{64} << 20;

void check(const PredictOptions& options) {
  const auto between = [](const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
    if (value < least || value > most)
      fail(ErrorKind::kUsage, "{}: expected an integer from {} to {}, got {}", name, least, most, value);
  };
  between("--max-tokens", options.max_tokens, 0, kMostTokens);
  between("--top-k", options.top_k, 0, kMostTokens);
  between("--count", options.count, 1, kMostTexts);
  between("--seed", options.seed, 0, std::numeric_limits<std::int64_t>::max());
  if (!(options.temperature >= 0 && options.temperature <= 1000))
    fail(ErrorKind::kUsage, "--temperature: expected a number from 0 to 1000, got {}", options.temperature);
  const auto share = [](const char* name, double value) {
    if (!(value > 0 && value <= 1))
      fail(ErrorKind::kUsage, "{}: expected a number above 0 and at most 1, got {}", name, value);
  };
  share("--top-p", options.top_p);
  share("--typical", options.typical);
  if (!(options.min_p >= 0 && options.min_p <= 1))
    fail(ErrorKind::kUsage, "--min-p: expected a number from 0 to 1, got {}", options.min_p);
  if (!(options.repetition >= infer::kLeastRepetition && options.repetition <= 1000))
    fail(ErrorKind::kUsage, "--repetition-penalty: expected a number from {} to 1000, got {}", infer::kLeastRepetition,
         options.repetition);
  for (const auto& [name, value] :
       {std::pair{"--frequency-penalty", options.frequency}, std::pair{"--presence-penalty", options.presence}})
    if (!(std::fabs(value) <= kLargestLogit))
      fail(ErrorKind::kUsage, "{}: expected a number from -{} to {}, got {}", name, kLargestLogit, kLargestLogit,
           value);
}

// "42=-100": a token and what is added to its logit.
std::pair<std::int32_t, double> bias_of(const std::string& text) {
  const char *const begin = text.data(), *const end = begin + text.size();
  std::int32_t token = 0;
  double bias = 0;
  const auto number = std::from_chars(begin, end, token);
  const bool named = number.ec == std::errc() && number.ptr != end && *number.ptr == '=';
  const auto value = named ? std::from_chars(number.ptr + 1, end, bias) : number;
  if (!named || value.ec != std::errc() || value.ptr != end || token < 0 || !(std::fabs(bias) <= kLargestLogit))
    fail(ErrorKind::kUsage, "--logit-bias: expected a token and a number, such as 42=-100, got '{}'", printable(text));
  return {token, bias};
}

infer::Sampling sampling_of(const PredictOptions& options) {
  infer::Sampling sampling{.repetition = options.repetition,
                           .frequency = options.frequency,
                           .presence = options.presence,
                           .temperature = options.temperature,
                           .top_k = options.top_k,
                           .typical = options.typical,
                           .top_p = options.top_p,
                           .min_p = options.min_p,
                           .seed = static_cast<std::uint64_t>(options.seed)};
  for (const std::string& text : options.bias) sampling.bias.push_back(bias_of(text));
  return sampling;
}

// Standard input without its last newline. A terminal is read only if `asked`.
std::string read_prompt(bool asked, const Interruption& interruption) {
  if (!asked && isatty(STDIN_FILENO)) return {};
  std::string text = read_standard_input(kLongestPrompt, interruption);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

const data::Tokenizer& tokenizer_of(const PredictInputs& inputs) {
  if (inputs.model.about().preprocessing.tokenizer) return *inputs.model.about().preprocessing.tokenizer;
  throw Error(ErrorKind::kUsage, fmt::format("{} has no tokenizer: it reads numbers, not text", inputs.version.name()),
              "--tokens takes the numbers of tokens");
}

std::set<std::int32_t> ends_of(const PredictInputs& inputs) {
  const auto& tokenizer = inputs.model.about().preprocessing.tokenizer;
  return tokenizer ? infer::end_tokens(inputs.model.about(), *tokenizer) : std::set<std::int32_t>();
}

// What a token adds to the text; its number where the model has no tokenizer.
std::string piece_of(const PredictInputs& inputs, std::int32_t token) {
  const auto& tokenizer = inputs.model.about().preprocessing.tokenizer;
  return tokenizer ? std::string(tokenizer->piece(token)) : fmt::format("{} ", token);
}

// Of all texts: tokens after the first, and the time from the first to the last. The prompt's time is another.
struct Speed {
  std::int64_t tokens = 0;
  double seconds = 0, prompt_seconds = 0;
  Proposals proposals{};
  std::size_t cache_bytes = 0;
};

// A text is what a command's caller compares: times stand beside the texts.
Json to_json(const Speed& speed, std::int64_t prompt_tokens, bool speculates) {
  Json out = {{"prompt_tokens", prompt_tokens},
              {"prompt_seconds", speed.prompt_seconds},
              {"tokens", speed.tokens},
              {"seconds", speed.seconds},
              {"cache_bytes", speed.cache_bytes}};
  if (speculates) speed.proposals.add_to(out);
  return out;
}

std::string rate_text(const Speed& speed, std::int64_t prompt_tokens) {
  const auto rate = [](std::int64_t tokens, double seconds) { return static_cast<double>(tokens) / seconds; };
  std::string text = fmt::format("{:.0f} tokens/s", rate(speed.tokens, speed.seconds));
  if (speed.prompt_seconds > 0 && prompt_tokens > 1)
    text += fmt::format(", {:.0f}/s of the prompt's {}", rate(prompt_tokens, speed.prompt_seconds), prompt_tokens);
  return text + speed.proposals.text();
}

// Prints texts in their order: the first that has not ended as it comes, later ones when their turn comes.
class TextPrinter {
 public:
  TextPrinter(const PredictInputs& inputs, std::string prompt, std::int64_t count, bool logprobs, PredictionFile& file,
              Context& context)
      : inputs_(inputs),
        logprobs_(logprobs),
        context_(context),
        prompt_(std::move(prompt)),
        file_(file),
        count_(count),
        pieces_(static_cast<std::size_t>(count_)),
        ends_(pieces_.size()) {
    begin();
  }

  void token(std::int64_t text, std::int32_t token) {
    const std::string piece = piece_of(inputs_, token);
    pieces_[static_cast<std::size_t>(text)] += piece;
    if (text == turn_) show(piece);
  }

  void end(std::int64_t text, const infer::Generated& made) {
    ends_[static_cast<std::size_t>(text)] = made;
    while (turn_ < count_ && ends_[static_cast<std::size_t>(turn_)]) {
      finish(*ends_[static_cast<std::size_t>(turn_)]);
      if (++turn_ == count_) break;
      begin();
      show(pieces_[static_cast<std::size_t>(turn_)]);
    }
  }

  const Json& texts() const { return texts_; }  // all, after the last one's end

 private:
  void begin() {
    if (count_ > 1 && !file_.wanted())
      context_.line(context_.dim(fmt::format("{}--- {}", turn_ > 0 ? "\n" : "", turn_ + 1)));
  }

  void show(const std::string& piece) {
    if (context_.wants_json() || file_.wanted()) return;
    context_.out(text_.shown(piece));
    context_.flush();
  }

  void finish(const infer::Generated& made) {
    if (!file_.wanted()) context_.line("");
    const std::string end = made.stopped    ? "stop"
                            : made.complete ? "grammar"
                                            : "length",
                      &text = pieces_[static_cast<std::size_t>(turn_)];
    texts_.push_back({{"text", text}, {"tokens", made.tokens}, {"end", end}});
    if (logprobs_) texts_.back()["logprobs"] = to_json(made.logprobs, inputs_);
    file_.add({{"prompt", prompt_}, {"text", text}, {"end", end}}, {{"prompt", prompt_}, {"text", text}, {"end", end}});
  }

  const PredictInputs& inputs_;
  const bool logprobs_;
  Context& context_;
  const std::string prompt_;
  PredictionFile& file_;
  const std::int64_t count_;
  ModelText text_ = ModelText::of_stdout();
  std::int64_t turn_ = 0;
  std::vector<std::string> pieces_;
  std::vector<std::optional<infer::Generated>> ends_;
  Json texts_ = Json::array();
};

Speed one_by_one(const infer::TextRequest& request, std::int64_t count, const infer::Model& model, TextPrinter& printer,
                 Context& context) {
  infer::Generator generator(model, [&context] { context.progress().check_interrupted(); });
  generator.prepare();
  Speed speed;
  speed.cache_bytes = generator.cache_bytes();
  for (std::int64_t text = 0; text < count; ++text) {
    double first = 0;
    const double begun = seconds_now();
    infer::TextRequest one = request;
    one.sample = static_cast<std::uint64_t>(text);
    one.emit = [&](const infer::Drawn& drawn) {
      if (first == 0) first = seconds_now();
      printer.token(text, drawn.token);
    };
    const infer::Generated made = generator.generate(one);
    if (first > 0) speed.prompt_seconds = first - begun;  // of the last text, whose plans are made
    if (made.tokens.size() > 1) {
      speed.seconds += seconds_now() - first;
      speed.tokens += static_cast<std::int64_t>(made.tokens.size()) - 1;
    }
    printer.end(text, made);
  }
  return speed;
}

// How many texts are generated at a time: their cache takes at most kMostCache bytes, if one text does not take more.
std::int64_t texts_at_once(const infer::TextRequest& request, std::int64_t count, const infer::Model& model) {
  constexpr std::int64_t kMostCache = std::int64_t{2} << 30;
  const std::int64_t each = infer::cache_positions(model, request) * infer::cache_position_bytes(model);
  return std::clamp<std::int64_t>(kMostCache / each, 1, std::min(count, infer::BatchGenerator::kMostTexts));
}

Speed together(const infer::TextRequest& request, std::int64_t count, const infer::Model& model, TextPrinter& printer,
               Context& context) {
  infer::BatchGenerator batch(model, texts_at_once(request, count, model) * infer::cache_positions(model, request));
  batch.prepare();
  Speed speed;
  speed.cache_bytes = batch.cache_bytes();
  double first = 0;
  const double begun = seconds_now();
  for (std::int64_t next = 0, ended = 0; ended < count;) {
    for (; next < count && batch.has_room(request); ++next) {
      infer::TextRequest one = request;
      one.sample = static_cast<std::uint64_t>(next);
      one.emit = [&, text = next](const infer::Drawn& drawn) {
        if (first == 0) first = seconds_now();
        printer.token(text, drawn.token);
      };
      batch.start(std::move(one));  // its number is `next`
    }
    context.progress().check_interrupted();
    for (const infer::FinishedText& finished : batch.step()) {
      if (finished.error) std::rethrow_exception(finished.error);
      ++ended;
      speed.tokens += static_cast<std::int64_t>(finished.text.tokens.size());
      speed.proposals.add(finished.text);
      printer.end(finished.id, finished.text);
    }
  }
  if (speed.tokens > 1) {
    --speed.tokens;
    speed.prompt_seconds = first - begun;
    speed.seconds = seconds_now() - first;
  }
  return speed;
}

}  // namespace

infer::Sampling checked_sampling(const PredictOptions& options) {
  check(options);
  return sampling_of(options);
}

Prompt prompt_of(const PredictOptions& options, const PredictInputs& inputs, Context& context) {
  if (!options.tokens.empty()) return {"", given_tokens(options, vocabulary_of(inputs.model))};
  const data::Tokenizer& tokenizer = tokenizer_of(inputs);
  std::string text =
      options.prompt.empty() ? read_prompt(!options.inputs.empty(), context.progress().interruption()) : options.prompt;
  const bool special = !nn::architecture_of(inputs.model.about()).empty();
  std::vector<std::int32_t> tokens = infer::prompt_tokens(tokenizer, text, "the prompt", special);
  return {std::move(text), std::move(tokens)};
}

int predict_text(const PredictOptions& options, const PredictInputs& inputs, Context& context) {
  check(options);
  if (!options.logits.empty()) return predict_logits(options, inputs, context);
  PredictionFile file(options.out, context);
  auto [prompt, start] = prompt_of(options, inputs, context);
  infer::TextRequest request;
  request.prompt = std::move(start);
  request.count = options.max_tokens;
  request.sampling = sampling_of(options);
  for (const std::string& stop : options.stops) request.stops.push_back(tokenizer_of(inputs).encode(stop, "--stop"));
  const Writing writing = writing_of(options, inputs, ends_of(inputs), false, context);
  writing.apply(request);
  TextPrinter printer(inputs, prompt, options.count, writing.logprobs != infer::kNoLogprobs, file, context);
  const bool speculates = writing.speculation.ngram > 0 || writing.speculation.draft != nullptr;
  const bool batched = infer::can_batch(inputs.model);  // also one text: its cache is no larger than it can become
  const Speed speed = (batched ? together : one_by_one)(request, options.count, inputs.model, printer, context);
  const auto prompt_tokens = static_cast<std::int64_t>(request.prompt.size());
  file.finish();
  if (context.wants_json()) {
    context.json({{"schema", "mlx.predict/1"},
                  {"model", inputs.version.name()},
                  {"digest", inputs.version.digest.text()},
                  {"kind", "text"},
                  {"prompt", prompt},
                  {"seed", options.seed},
                  {"speed", to_json(speed, prompt_tokens, speculates)},
                  {"texts", printer.texts()}});
  }
  if (speed.seconds > 0) context.say(rate_text(speed, prompt_tokens));
  if (!options.cache.empty())
    context.say(fmt::format("keys and values in {}: {}", options.cache, format_bytes(speed.cache_bytes)));
  return 0;
}

}  // namespace mlx::cmd
