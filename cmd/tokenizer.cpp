// mlx tokenizer: makes one from text, and shows what one makes of text.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "cmd/cli/cli.h"
#include "cmd/cli/standard_input.h"
#include "cmd/data_subject.h"
#include "data/bpe_maker.h"
#include "data/kinds/text.h"
#include "data/splits.h"
#include "nn/model.h"
#include "registry/sync/fetch_on_demand.h"
#include "registry/versions/references.h"
#include "train/config/config.h"

namespace mlx::cmd {
namespace {

constexpr std::size_t kLargestFile = std::size_t{64} << 20, kLongestText = std::size_t{1} << 30;

// --- train ---

struct TrainOptions {
  std::string data, config, split = "train", column, out = "tokenizer.json";
  std::int64_t vocabulary = 0;
  std::vector<std::string> special;
};

// What a config says of its text.
void read_config(TrainOptions& options) {
  const train::TrainConfig config = train::read_train_config(options.config);
  options.data = config.dataset;
  options.split = config.train_split;
  options.column = config.reading.column;
  if (options.vocabulary == 0) options.vocabulary = config.reading.vocabulary;
}

int run_train(TrainOptions options, Context& context) {
  if (options.data.empty() == options.config.empty())
    fail(ErrorKind::kUsage, "tokenizer train: give either DATA or a config (-c)");
  if (!options.config.empty()) read_config(options);
  if (options.vocabulary < data::BpeMaker::kLeast || options.vocabulary > data::BpeMaker::kMost) {
    fail(ErrorKind::kUsage, "--vocab: expected an integer from {} to {}, got {}", data::BpeMaker::kLeast,
         data::BpeMaker::kMost, options.vocabulary);
  }
  const DataSubject subject = find_data(options.data, context);
  const data::Tokenizer made = data::make_bpe(*subject.store, subject.manifest, options.split, options.column,
                                              options.vocabulary, options.special, context.progress());
  const std::string file = made.file();
  write_file_atomically(join_path(context.folder(), options.out), file);
  context.line(fmt::format("{}  {} tokens  {}", options.out, grouped(static_cast<std::uint64_t>(made.size())),
                           Digest::of(as_bytes(file)).brief()));
  if (context.wants_json()) {
    context.json({{"schema", "mlx.tokenizer-train/1"},
                  {"data", subject.name},
                  {"split", options.split},
                  {"tokenizer", options.out},
                  {"kind", made.kind()},
                  {"tokens", made.size()},
                  {"digest", Digest::of(as_bytes(file)).text()}});
  }
  return 0;
}

Command train_command() {
  auto options = std::make_shared<TrainOptions>();
  Command command;
  command.name = "train";
  command.summary = "Make a byte-level BPE tokenizer from text";
  command.options = {
      optional_argument("DATA", options->data, "A dataset of text, or a file or folder", Complete::kReference),
      option("-c,--config", "FILE", options->config, "Take dataset, split and column from a training's config",
             Complete::kFile),
      integer("--vocab", "N", options->vocabulary, "Tokens, with the 256 bytes and the special ones"),
      option("--split", "NAME", options->split, "The split to read (train)"),
      option("--column", "NAME", options->column, "The column of text in a table"),
      {.names = "--special",
       .value = "TEXT",
       .help = "A marker that is a token of its own; may repeat",
       .many = true,
       .texts = &options->special},
      option("-o,--out", "FILE", options->out, "Where to write it (tokenizer.json)", Complete::kFile),
  };
  command.examples = {"mlx tokenizer train data/words --vocab 8192 --out tokenizer.json",
                      "mlx tokenizer train -c train.toml --vocab 8192"};
  command.run = [options](Context& context) { return run_train(*options, context); };
  return command;
}

// --- encode, decode ---

// A file, or the tokenizer of a model's version.
data::Tokenizer read_tokenizer(const std::string& word, Context& context) {
  const std::string path = join_path(context.folder(), word);
  if (path_exists(path) || !context.has_repository())
    return data::Tokenizer::from_file(as_text(read_regular_file(path, kLargestFile)), word);
  const registry::Version version = registry::resolve(context.repository(), word);
  registry::need_files_of(context.repository(), version.name(), version.digest);
  const auto tokenizer = nn::load_description(context.repository().store(), version.digest).preprocessing.tokenizer;
  if (!tokenizer) fail(ErrorKind::kUsage, "{} has no tokenizer", version.name());
  return *tokenizer;
}

std::string read_input(const std::string& word, Context& context) {
  if (word.empty() || word == "-") return read_standard_input(kLongestText, context.progress().interruption());
  return std::string(as_text(read_regular_file(join_path(context.folder(), word), kLongestText)));
}

std::vector<std::string_view> parts(std::string_view text, char mark) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(mark), text.size());
    out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return out;
}

struct EncodeOptions {
  std::string tokenizer, input;
  bool lines = false, null = false, jsonl = false, special = false;
};

// Bytes that are no UTF-8 stand as U+FFFD in JSON.
std::string for_json(std::string_view text) {
  return is_utf8(text)
             ? std::string(text)
             : Json::parse(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace)).get<std::string>();
}

Json encoded_json(const data::Tokenizer& tokenizer, const data::PlacedTokens& tokens) {
  Json names = Json::array(), places = Json::array();
  for (const std::int32_t id : tokens.ids) names.push_back(for_json(tokenizer.name(id)));
  for (const auto& [begin, end] : tokens.places) places.push_back({begin, end});
  return {{"ids", tokens.ids},
          {"tokens", names},
          {"offsets", places},
          {"text", for_json(tokenizer.decode_text(tokens.ids, true))}};
}

int run_encode(const EncodeOptions& options, Context& context) {
  const data::Tokenizer tokenizer = read_tokenizer(options.tokenizer, context);
  const std::string input = read_input(options.input, context);
  const std::vector<std::string_view> texts = options.null    ? parts(input, '\0')
                                              : options.lines ? parts(input, '\n')
                                                              : std::vector<std::string_view>{input};
  Json list = Json::array();
  std::uint64_t count = 0;
  for (const std::string_view text : texts) {
    context.progress().check_interrupted();
    const data::PlacedTokens tokens = tokenizer.encode_placed(text, "the text", options.special);
    count += tokens.ids.size();
    if (options.jsonl) {
      context.out(canonical(encoded_json(tokenizer, tokens)) + "\n");
    } else if (context.wants_json()) {
      list.push_back(encoded_json(tokenizer, tokens));
    } else {
      context.line(fmt::format("{}", fmt::join(tokens.ids, " ")));
    }
  }
  if (context.wants_json() && !options.jsonl)
    context.json({{"schema", "mlx.tokenizer-encode/1"},
                  {"kind", tokenizer.kind()},
                  {"vocabulary", tokenizer.size()},
                  {"tokens", count},
                  {"texts", list}});
  context.say(fmt::format("{} tokens for {} bytes", grouped(count), grouped(input.size())));
  return 0;
}

Command encode_command() {
  auto options = std::make_shared<EncodeOptions>();
  Command command;
  command.name = "encode";
  command.summary = "Print the tokens of a text";
  command.options = {
      argument("TOKENIZER", options->tokenizer, "A tokenizer.json, or a model", Complete::kFile),
      optional_argument("FILE", options->input, "The text; - or nothing is standard input", Complete::kFile),
      flag("--lines", options->lines, "Each line is a text of its own"),
      flag("-0,--null", options->null, "Texts end with a zero byte"),
      flag("--special", options->special, "With the special tokens that the tokenizer puts around a text"),
      flag("--jsonl", options->jsonl, "Print one JSON document for each text"),
  };
  command.examples = {"echo 'Hello world' | mlx tokenizer encode tokenizer.json",
                      "mlx tokenizer encode lm@v3 notes.txt --json"};
  command.run = [options](Context& context) { return run_encode(*options, context); };
  return command;
}

struct DecodeOptions {
  std::string tokenizer, input;
  bool skip = false;
};

std::vector<std::int32_t> read_ids(std::string_view text, const data::Tokenizer& tokenizer) {
  std::vector<std::int32_t> out;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == ' ' || text[at] == ',' || text[at] == '\t' || text[at] == '\r') {
      ++at;
      continue;
    }
    const std::size_t end = std::min(text.find_first_of(" ,\t\r", at), text.size());
    const std::string_view word = text.substr(at, end - at);
    std::int64_t id = 0;
    const bool digits = word.size() < 10 && word.find_first_not_of("0123456789") == std::string_view::npos;
    if (digits) id = std::stoll(std::string(word));
    if (!digits || id >= tokenizer.size())
      fail(ErrorKind::kUsage, "'{}' is no token: expected numbers from 0 to {}", printable(word.substr(0, 40)),
           tokenizer.size() - 1);
    out.push_back(static_cast<std::int32_t>(id));
    at = end;
  }
  return out;
}

int run_decode(const DecodeOptions& options, Context& context) {
  const data::Tokenizer tokenizer = read_tokenizer(options.tokenizer, context);
  const std::string input = read_input(options.input, context);
  Json texts = Json::array();
  for (const std::string_view line : parts(input, '\n')) {
    const std::vector<std::int32_t> ids = read_ids(line, tokenizer);
    const std::string text = tokenizer.decode_text(ids, options.skip);
    if (!context.wants_json()) context.line(text);
    texts.push_back({{"ids", ids}, {"text", for_json(text)}});
  }
  if (context.wants_json()) context.json({{"schema", "mlx.tokenizer-decode/1"}, {"texts", texts}});
  return 0;
}

Command decode_command() {
  auto options = std::make_shared<DecodeOptions>();
  Command command;
  command.name = "decode";
  command.summary = "Print the text of tokens";
  command.options = {
      argument("TOKENIZER", options->tokenizer, "A tokenizer.json, or a model", Complete::kFile),
      optional_argument("FILE", options->input, "Numbers of tokens, a text each line; - or nothing is standard input",
                        Complete::kFile),
      flag("--skip-special", options->skip, "Leave out special tokens"),
  };
  command.examples = {"echo '15496 995' | mlx tokenizer decode tokenizer.json"};
  command.run = [options](Context& context) { return run_decode(*options, context); };
  return command;
}

}  // namespace

Command add_tokenizer() {
  Command command;
  command.name = "tokenizer";
  command.summary = "Make tokenizers, and see what they make of text";
  command.group = "data";
  command.examples = {"mlx tokenizer train data/words --vocab 8192",
                      "echo 'Hello world' | mlx tokenizer encode tokenizer.json"};
  command.subcommands = {train_command(), encode_command(), decode_command()};
  return command;
}

}  // namespace mlx::cmd
