// mlx predict for language models: the text that follows a prompt, printed as it comes.
#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "cmd/cli/standard_input.h"
#include "cmd/predict.h"
#include "cmd/prediction_file.h"
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

// What a token adds to the text; its number where the model has no tokenizer.
std::string piece_of(const PredictInputs& inputs, std::int32_t token) {
  const auto& tokenizer = inputs.model.about().preprocessing.tokenizer;
  return tokenizer ? std::string(tokenizer->piece(token)) : fmt::format("{} ", token);
}

// Of all texts: tokens after the first, and the time from the first to the last. The prompt's time is another.
struct Speed {
  std::int64_t tokens = 0;
  double seconds = 0, prompt_seconds = 0;
};

// A text is what a command's caller compares: times stand beside the texts.
Json to_json(const Speed& speed, std::int64_t prompt_tokens) {
  return {{"prompt_tokens", prompt_tokens},
          {"prompt_seconds", speed.prompt_seconds},
          {"tokens", speed.tokens},
          {"seconds", speed.seconds}};
}

std::string rate_text(const Speed& speed, std::int64_t prompt_tokens) {
  const auto rate = [](std::int64_t tokens, double seconds) { return static_cast<double>(tokens) / seconds; };
  std::string text = fmt::format("{:.0f} tokens/s", rate(speed.tokens, speed.seconds));
  if (speed.prompt_seconds > 0 && prompt_tokens > 1)
    text += fmt::format(", {:.0f}/s of the prompt's {}", rate(prompt_tokens, speed.prompt_seconds), prompt_tokens);
  return text;
}

}  // namespace

Prompt prompt_of(const PredictOptions& options, const PredictInputs& inputs, Context& context) {
  if (!options.tokens.empty()) return {"", given_tokens(options, inputs)};
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
  const auto [prompt, start] = prompt_of(options, inputs, context);
  std::vector<std::int32_t> stop;
  if (!options.stop.empty()) stop = tokenizer_of(inputs).encode(options.stop, "--stop");
  const infer::Sampling sampling = sampling_of(options);
  infer::Generator generator(inputs.model, [&context] { context.progress().check_interrupted(); });
  Json texts = Json::array();
  Speed speed;
  for (std::int64_t sample = 0; sample < options.count; ++sample) {
    if (options.count > 1 && !file.wanted())
      context.line(context.dim(fmt::format("{}--- {}", sample > 0 ? "\n" : "", sample + 1)));
    double first = 0;
    const double begun = seconds_now();
    const infer::Generated made = generator.generate(start, options.max_tokens, sampling,
                                                     static_cast<std::uint64_t>(sample), stop, [&](std::int32_t token) {
                                                       if (first == 0) first = seconds_now();
                                                       if (context.wants_json() || file.wanted()) return;
                                                       context.out(piece_of(inputs, token));
                                                       context.flush();
                                                     });
    if (first > 0) speed.prompt_seconds = first - begun;  // of the last text, whose plans are made
    if (made.tokens.size() > 1) {
      speed.seconds += seconds_now() - first;
      speed.tokens += static_cast<std::int64_t>(made.tokens.size()) - 1;
    }
    if (!file.wanted()) context.line("");
    const std::string end = made.stopped ? "stop" : "length";
    std::string text;
    for (const std::int32_t token : made.tokens) text += piece_of(inputs, token);
    texts.push_back({{"text", text}, {"tokens", made.tokens}, {"end", end}});
    file.add({{"prompt", prompt}, {"text", text}, {"end", end}}, {{"prompt", prompt}, {"text", text}, {"end", end}});
  }
  file.finish();
  if (context.wants_json()) {
    context.json({{"schema", "mlx.predict/1"},
                  {"model", inputs.version.name()},
                  {"digest", inputs.version.digest.text()},
                  {"kind", "text"},
                  {"prompt", prompt},
                  {"seed", options.seed},
                  {"speed", to_json(speed, static_cast<std::int64_t>(start.size()))},
                  {"texts", texts}});
  }
  if (speed.seconds > 0) context.say(rate_text(speed, static_cast<std::int64_t>(start.size())));
  return 0;
}

}  // namespace mlx::cmd
