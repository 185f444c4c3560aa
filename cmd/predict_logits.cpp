// mlx predict for language models whose prompt is given as tokens, and --logits: what the network says behind each
// token of a prompt, as a file of numbers.
#include <fmt/format.h>

#include <charconv>
#include <functional>
#include <span>

#include "base/bytes.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "cmd/predict.h"
#include "formats/npy.h"
#include "graph/passes/passes.h"
#include "infer/encoder.h"
#include "infer/generate.h"

namespace mlx::cmd {
namespace {

// "1 15 7"; commas are blanks.
std::vector<std::int32_t> parse_tokens(std::string_view text, std::int64_t vocabulary) {
  constexpr std::string_view kBetween = " ,\t\n";
  std::vector<std::int32_t> tokens;
  for (std::size_t at = text.find_first_not_of(kBetween); at != std::string_view::npos;
       at = text.find_first_not_of(kBetween, at)) {
    const std::string_view word = text.substr(at, text.find_first_of(kBetween, at) - at);
    std::int32_t token = -1;
    const auto [end, wrong] = std::from_chars(word.data(), word.data() + word.size(), token);
    if (wrong != std::errc() || end != word.data() + word.size() || token < 0 || token >= vocabulary)
      fail(ErrorKind::kUsage, "--tokens: '{}': expected integers from 0 to {}", printable(word), vocabulary - 1);
    tokens.push_back(token);
    at += word.size();
  }
  if (tokens.empty()) fail(ErrorKind::kUsage, "--tokens: there are none");
  return tokens;
}

void check_alone(const PredictOptions& options) {
  if (options.count != 1 || !options.stops.empty() || !options.out.empty())
    fail(ErrorKind::kUsage, "--logits writes no text: leave out --count, --stop and --out");
  if (!options.grammar.empty() || !options.schema.empty() || !options.speculate.empty() || !options.draft.empty() ||
      options.logprobs != kNotGiven)
    fail(ErrorKind::kUsage,
         "--logits writes no text: leave out --grammar, --schema, --logprobs, --speculate and --draft");
}

// Passes what the network gives for each token: logits, or the states of an encoder.
void compute_rows(const infer::Model& model, const std::vector<std::int32_t>& tokens, Context& context,
                  const std::function<void(std::span<const float>)>& emit) {
  const auto check = [&context] { context.progress().check_interrupted(); };
  if (!graph::is_encoder(model.graph())) return infer::Generator(model, check).logits(tokens, emit);
  infer::Encoder(model, check).encode({&tokens, 1}, [&](std::size_t, std::span<const float> states) { emit(states); });
}

}  // namespace

std::int64_t vocabulary_of(const infer::Model& model) {
  return graph::vocabulary_size(model.graph());
}

std::vector<std::int32_t> given_tokens(const PredictOptions& options, std::int64_t vocabulary) {
  if (!options.prompt.empty() || !options.inputs.empty())
    fail(ErrorKind::kUsage, "--tokens is the prompt: leave out --prompt and `-`");
  return parse_tokens(options.tokens, vocabulary);
}

int predict_logits(const PredictOptions& options, const PredictInputs& inputs, Context& context) {
  check_alone(options);
  const std::string place = join_path(context.folder(), options.logits);
  if (!is_folder(parent_path(place)))
    fail(ErrorKind::kNotFound, "--logits {}: its folder is not there", options.logits);
  const std::vector<std::int32_t> tokens = prompt_of(options, inputs, context).tokens;
  const graph::Graph& graph = inputs.model.graph();
  const std::int64_t width = graph.value(graph.outputs.at(0)).dims.back().size;
  const auto rows = static_cast<std::int64_t>(tokens.size());
  if (rows > inputs.model.signature().context)
    fail(ErrorKind::kUsage, "the prompt has {} tokens, the model takes {}", rows, inputs.model.signature().context);
  Bytes file = formats::encode_npy_header(rows, width);
  file.reserve(file.size() + static_cast<std::size_t>(rows * width) * sizeof(float));
  compute_rows(inputs.model, tokens, context, [&file](std::span<const float> some) {
    const auto* const bytes = reinterpret_cast<const std::uint8_t*>(some.data());
    file.insert(file.end(), bytes, bytes + some.size_bytes());
  });
  write_file_atomically(place, file);
  context.line(fmt::format("{}  {} tokens x {}", options.logits, rows, width));
  if (context.wants_json()) {
    const bool encoder = graph::is_encoder(graph);
    context.json({{"schema", "mlx.predict/1"},
                  {"model", inputs.version.name()},
                  {"digest", inputs.version.digest.text()},
                  {"kind", encoder ? "states" : "logits"},
                  {"tokens", tokens},
                  {encoder ? "width" : "vocabulary", width},
                  {"file", options.logits}});
  }
  return 0;
}

}  // namespace mlx::cmd
