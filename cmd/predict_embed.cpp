// mlx predict --embed: texts as vectors, in a file.
#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "cmd/backend.h"
#include "cmd/cli/standard_input.h"
#include "cmd/predict.h"
#include "formats/npy.h"
#include "graph/passes/passes.h"
#include "infer/embedding.h"

namespace mlx::cmd {
namespace {

constexpr std::size_t kMostText = std::size_t{1} << 30;

// A text and where it stands, for messages.
struct PlacedText {
  std::string text, place;
};

void check_embed(const PredictOptions& options, Context& context) {
  if (!options.logits.empty() || options.chat || !options.out.empty() || !options.stops.empty() || options.count != 1)
    fail(ErrorKind::kUsage, "--embed writes no text: leave out --logits, --chat, --out, --stop and --count");
  if (options.embed == "-") {
    if (context.wants_json()) fail(ErrorKind::kUsage, "--embed - and --json both want standard output");
    return;
  }
  if (!options.embed.ends_with(".npy") && !options.embed.ends_with(".jsonl"))
    throw Error(ErrorKind::kUsage, fmt::format("--embed {}: no file of vectors by its name", options.embed),
                "the name must end in .npy or .jsonl; `-` is JSON lines on standard output");
  if (!is_folder(parent_path(join_path(context.folder(), options.embed))))
    fail(ErrorKind::kNotFound, "--embed {}: its folder is not there", options.embed);
}

void add_lines(const std::string& text, const std::string& what, std::vector<PlacedText>& out) {
  std::size_t line = 0;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    std::string one = text.substr(from, end - from);
    if (one.ends_with('\r')) one.pop_back();
    out.push_back({std::move(one), fmt::format("{}: line {}", what, ++line)});
    from = end + 1;
  }
}

std::vector<PlacedText> texts_of(const PredictOptions& options, Context& context) {
  std::vector<PlacedText> out;
  if (!options.prompt.empty()) {
    if (!options.inputs.empty()) fail(ErrorKind::kUsage, "--prompt is the text: leave out the files");
    out.push_back({options.prompt, "--prompt"});
    return out;
  }
  const std::vector<std::string> standard{"-"};
  for (const std::string& input : options.inputs.empty() ? standard : options.inputs) {
    if (input == "-")
      add_lines(read_standard_input(kMostText, context.progress().interruption()), "standard input", out);
    else
      add_lines(read_text_file(input, kMostText, context), printable(input), out);
  }
  if (out.empty())
    throw Error(ErrorKind::kUsage, "--embed: there is no text",
                "--prompt TEXT is one, and files have one in each line, and so has standard input without them");
  return out;
}

infer::Tokens cut_to(std::size_t most, const infer::Tokens& whole, const PlacedText& text,
                     const data::Tokenizer& tokenizer) {
  const auto cut = infer::cut_to(most, whole, tokenizer.encode_placed(text.text, text.place, false).ids);
  if (!cut) fail(ErrorKind::kUsage, "{}: its tokens cannot be cut to {}", text.place, most);
  return *cut;
}

infer::Tokens tokens_of(const PlacedText& text, const data::Tokenizer& tokenizer, const PredictOptions& options,
                        std::int64_t context) {
  infer::Tokens tokens = tokenizer.encode_placed(text.text, text.place, true).ids;
  if (text.text.empty() || tokens.empty()) fail(ErrorKind::kUsage, "{}: the text is empty", text.place);
  if (static_cast<std::int64_t>(tokens.size()) <= context) return tokens;
  if (options.truncate) return cut_to(static_cast<std::size_t>(context), tokens, text, tokenizer);
  throw Error(ErrorKind::kUsage, fmt::format("{}: {} tokens, the model takes {}", text.place, tokens.size(), context),
              "--truncate embeds the beginning of such a text");
}

// Bytes of the text that are not UTF-8 appear as U+FFFD, as in --json.
std::string json_line(const PlacedText& text, std::size_t tokens, const std::vector<float>& vector) {
  std::string numbers;
  for (const float x : vector) numbers += fmt::format("{}{}", numbers.empty() ? "" : ",", x);
  const std::string quoted = Json(text.text).dump(-1, ' ', false, Json::error_handler_t::replace);
  return fmt::format("{{\"embedding\":[{}],\"text\":{},\"tokens\":{}}}\n", numbers, quoted, tokens);
}

// Vectors in the form that the file's name asks for.
class VectorFile {
 public:
  VectorFile(const PredictOptions& options, std::size_t rows, std::int64_t width)
      : path_(options.embed), lines_(!options.embed.ends_with(".npy")) {
    if (!lines_) bytes_ = formats::encode_npy_header(static_cast<std::int64_t>(rows), width);
  }
  void add(const PlacedText& text, std::size_t tokens, const std::vector<float>& vector) {
    const std::string line = lines_ ? json_line(text, tokens, vector) : std::string();
    const ByteView view =
        lines_ ? as_bytes(line)
               : ByteView(reinterpret_cast<const std::uint8_t*>(vector.data()), vector.size() * sizeof(float));
    bytes_.insert(bytes_.end(), view.begin(), view.end());
  }
  void finish(Context& context) const {
    if (path_ == "-") return context.out(as_text(bytes_));
    write_file_atomically(join_path(context.folder(), path_), bytes_);
  }

 private:
  std::string path_;
  bool lines_;
  Bytes bytes_;
};

struct Embedded {
  std::size_t texts = 0, tokens = 0;
  std::int64_t width = 0;
};

std::vector<infer::Tokens> all_tokens(const PredictOptions& options, const PredictInputs& inputs,
                                      std::span<const PlacedText> texts, std::int64_t vocabulary,
                                      std::int64_t context) {
  if (!options.tokens.empty()) {
    infer::Tokens tokens = given_tokens(options, vocabulary);
    if (static_cast<std::int64_t>(tokens.size()) > context)
      fail(ErrorKind::kUsage, "--tokens: {} tokens, the model takes {}", tokens.size(), context);
    return {std::move(tokens)};
  }
  std::vector<infer::Tokens> out;
  for (const PlacedText& text : texts)
    out.push_back(tokens_of(text, *inputs.model.about().preprocessing.tokenizer, options, context));
  return out;
}

Embedded embed_all(const PredictOptions& options, const PredictInputs& inputs, std::int64_t vocabulary,
                   infer::Pooled pooled, Context& context) {
  infer::Embedder embedder(inputs.model, pooled, [&context] { context.progress().check_interrupted(); });
  const bool numbers = !options.tokens.empty();
  if (!numbers && !inputs.model.about().preprocessing.tokenizer)
    throw Error(ErrorKind::kUsage, inputs.version.name() + " has no tokenizer: it reads numbers, not text",
                "--tokens takes the numbers of tokens");
  const std::vector<PlacedText> texts =
      numbers ? std::vector<PlacedText>{{"", "--tokens"}} : texts_of(options, context);
  const std::vector<infer::Tokens> tokens = all_tokens(options, inputs, texts, vocabulary, embedder.context());
  const std::vector<std::vector<float>> vectors = embedder.embed(tokens);
  VectorFile file(options, texts.size(), embedder.width());
  Embedded done{texts.size(), 0, embedder.width()};
  for (std::size_t i = 0; i < texts.size(); ++i) {
    file.add(texts[i], tokens[i].size(), vectors[i]);
    done.tokens += tokens[i].size();
  }
  file.finish(context);
  return done;
}

}  // namespace

int predict_embed(const PredictOptions& options, AskedModel asked, Context& context) {
  check_embed(options, context);
  const std::int64_t vocabulary = graph::vocabulary_size(asked.model.graph);
  nn::Model bare = infer::without_head(std::move(asked.model));
  infer::Pooled pooled = infer::pooling_of(bare);
  if (!options.pooling.empty()) pooled.pooling = infer::pooling_named(options.pooling);
  pooled.unit = pooled.unit || options.normalize;
  const infer::Model model(std::move(bare), chosen_backend(context, options.device), context.pool(), cache_of(options));
  const Embedded done = embed_all(options, {asked.version, model}, vocabulary, pooled, context);
  context.say(fmt::format("{} of {} numbers in {}", counted(done.texts, "vector"), done.width,
                          options.embed == "-" ? "standard output" : printable(options.embed)));
  if (context.wants_json()) {
    context.json({{"schema", "mlx.predict/1"},
                  {"model", asked.version.name()},
                  {"digest", asked.version.digest.text()},
                  {"kind", "embeddings"},
                  {"texts", done.texts},
                  {"tokens", done.tokens},
                  {"width", done.width},
                  {"pooling", infer::name_of(pooled.pooling)},
                  {"normalized", pooled.unit},
                  {"file", options.embed}});
  }
  return 0;
}

}  // namespace mlx::cmd
