// mlx predict: asks a model about new data. The model's signature decides what is asked: images and rows get labels or
// numbers, a prompt is continued.
#include "cmd/predict.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "base/error.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/text.h"
#include "cmd/backend.h"
#include "graph/passes/passes.h"

namespace mlx::cmd {
namespace {

void refuse_writing(const PredictOptions& options, const std::string& model) {
  const std::pair<const char*, bool> given[] = {
      {"--logprobs", options.logprobs != kNotGiven}, {"--grammar", !options.grammar.empty()},
      {"--schema", !options.schema.empty()},         {"--speculate", !options.speculate.empty()},
      {"--cache", !options.cache.empty()},           {"--draft", !options.draft.empty()}};
  for (const auto& [name, is] : given)
    if (is) fail(ErrorKind::kUsage, "{} is for models of text; {} is none", name, model);
}

int run_predict(const PredictOptions& options, Context& context) {
  if (options.top < 1) fail(ErrorKind::kUsage, "--top {}: expected at least 1", options.top);
  AskedModel asked = open_model(options.model, context);
  if (!options.embed.empty()) return predict_embed(options, std::move(asked), context);
  if (options.normalize || !options.pooling.empty())
    fail(ErrorKind::kUsage, "--pooling and --normalize are for --embed");
  if (options.truncate) fail(ErrorKind::kUsage, "--truncate is for --embed");
  const infer::Model model(std::move(asked.model), chosen_backend(context, options.device), context.pool(),
                           cache_of(options));
  const PredictInputs inputs{asked.version, model};
  const infer::Takes takes = model.signature().takes;
  if (takes != infer::Takes::kText && !(options.tokens.empty() && options.logits.empty()))
    fail(ErrorKind::kUsage, "--tokens and --logits are for models of text; {} is none", asked.version.name());
  if (graph::is_encoder(model.graph()) && options.logits.empty())
    throw Error(ErrorKind::kUsage, asked.version.name() + " is an encoder: it gives vectors and writes no text",
                "--embed FILE writes the vectors of texts, --logits FILE the states of a text's tokens");
  if (takes != infer::Takes::kText) refuse_writing(options, asked.version.name());
  if (takes != infer::Takes::kText && options.chat)
    fail(ErrorKind::kUsage, "--chat is for models of text; {} is none", asked.version.name());
  if (!options.chat && !options.system.empty()) fail(ErrorKind::kUsage, "--system is for --chat");
  if (options.chat) return predict_chat(options, inputs, context);
  if (takes == infer::Takes::kImages) return predict_images(options, inputs, context);
  if (takes == infer::Takes::kRows) return predict_rows(options, inputs, context);
  const bool prompts = takes == infer::Takes::kText && options.inputs == std::vector<std::string>{"-"};
  if (prompts && !options.prompt.empty())
    fail(ErrorKind::kUsage, "--prompt and `-`, standard input, are both the prompt: say one of them");
  const std::string& family = model.about().family;
  if (!options.inputs.empty() && !prompts)
    throw Error(ErrorKind::kUsage, fmt::format("{} is of family '{}' and takes no files", asked.version.name(), family),
                takes == infer::Takes::kText
                    ? "the text to continue is --prompt TEXT, or else standard input; --embed and --chat take files"
                    : "");
  if (takes == infer::Takes::kText) return predict_text(options, inputs, context);
  throw Error(
      ErrorKind::kUsage,
      fmt::format("{} is of family '{}', which takes neither images, rows nor text", asked.version.name(), family),
      "predict asks only these; `mlx show` says what the model takes");
}

}  // namespace

std::string read_text_file(const std::string& input, std::size_t most, Context& context) {
  const std::string path = join_path(context.folder(), input);
  if (!path_exists(path))
    throw Error(ErrorKind::kNotFound, fmt::format("{}: no such file", printable(input)),
                "a text itself is given with --prompt TEXT");
  return std::string(as_text(read_regular_file(path, most)));
}

Command add_predict() {
  auto options = std::make_shared<PredictOptions>();
  Command command;
  command.name = "predict";
  command.summary = "Ask a model: label images, predict from rows, continue text";
  command.group = "work";
  command.options = {
      argument("MODEL", options->model,
               "The model's reference (clf, gpt@v2, clf@production) or a folder with its files", Complete::kReference),
      arguments("INPUT", options->inputs,
                "Photos, folders and .tar files of photos, IDX files, tables of rows, or datasets; - is standard input",
                Complete::kFile, false),
      option("-o,--out", "FILE", options->out, "Write a table: .csv, .tsv, .jsonl; - is CSV on standard output",
             Complete::kFile),
      option("-s,--split", "SPLIT", options->split, "Which split of a dataset (default: test)"),
      device_option(options->device),
      integer("--top", "N", options->top, "The N likeliest classes of each (default: 1)"),
      option("-p,--prompt", "TEXT", options->prompt, "The text to continue (default: standard input)"),
      option("--tokens", "IDS", options->tokens, "The prompt as numbers of tokens: \"1 15 7\""),
      option("--logits", "FILE", options->logits,
             "Write the logits behind each token of the prompt as npy (f32, tokens x vocabulary), and no text; of an "
             "encoder "
             "the state of each token (tokens x width)",
             Complete::kFile),
      option("--embed", "FILE", options->embed,
             "Write the prompt, or each line of INPUT, as a vector and no text: .npy, .jsonl; - is JSON lines",
             Complete::kFile),
      choice("--pooling", "HOW", {"last", "mean", "cls", "max"}, options->pooling,
             "The vector is the state of the last token, the mean of all, the state of the first, or the largest of "
             "each number (default: as the model's files say, or last, or mean for encoders)"),
      flag("--normalize", options->normalize, "Scale vectors to the length 1"),
      flag("--truncate", options->truncate, "Of a text that is longer than the context, embed the beginning"),
      flag("--chat", options->chat, "Answer in a conversation, each message a line; with --json, JSON messages"),
      option("--system", "TEXT", options->system, "What a conversation begins with, from the system"),
      integer("--max-tokens", "N", options->max_tokens, "Write at most N tokens (default: 200)"),
      number("--temperature", "T", options->temperature,
             "Below 1 favours likely tokens; 0 always takes the likeliest (default: 0.8)"),
      integer("--top-k", "K", options->top_k, "Only the K likeliest tokens (default: 0, all)"),
      number("--top-p", "P", options->top_p, "Only the likeliest tokens that together have probability P (default: 1)"),
      number("--min-p", "P", options->min_p,
             "Only tokens with at least this share of the likeliest one's probability (default: 0, all)"),
      number("--typical", "P", options->typical,
             "Only the most typical tokens that together have probability P (default: 1)"),
      number("--repetition-penalty", "R", options->repetition,
             "Divides the logits of tokens that occurred before, such as 1.1 (default: 1)"),
      number("--frequency-penalty", "F", options->frequency,
             "Taken from a token's logit for each time that it was written (default: 0)"),
      number("--presence-penalty", "F", options->presence,
             "Taken from the logits of tokens that were written (default: 0)"),
      {.names = "--logit-bias",
       .value = "TOKEN=BIAS",
       .help = "Added to the logit of a token, by its number; may be repeated",
       .many = true,
       .texts = &options->bias},
      integer("--seed", "N", options->seed, "The seed of the random draws (default: 1)"),
      integer("--count", "N", options->count, "How many texts to write (default: 1)"),
      {.names = "--stop",
       .value = "TEXT",
       .help = "Stop after the first TEXT in the output; may be repeated",
       .many = true,
       .texts = &options->stops},
      option("--grammar", "FILE", options->grammar, "Write only what this grammar allows (GBNF, as llama.cpp has it)",
             Complete::kFile),
      option("--schema", "FILE", options->schema, "Write only JSON of this JSON schema; '{}' is any JSON",
             Complete::kFile),
      integer("--logprobs", "N", options->logprobs,
              "With --json: the log probability of each token, and the N likeliest ones there"),
      option(
          "--speculate", "ngram[:N]", options->speculate,
          "Propose what followed the last 2 to N tokens before, and verify several in a pass: faster, the same text"),
      option("--draft", "MODEL", options->draft, "Propose what this small model would write, and verify: the same text",
             Complete::kReference),
      choice("--cache", "TYPE", {"f32", "f16", "q8"}, options->cache,
             "How keys and values are kept: half or about a quarter of the memory, not the same bits (default: f32)"),
  };
  command.examples = {"mlx predict clf shirt.jpg --top 3",
                      "mlx predict clf photos/ --out labels.csv",
                      "mlx predict clf data/fashion --split test --json",
                      "mlx predict price offers.csv --out prices.csv",
                      "ls *.pgm | mlx predict clf - --out -",
                      "mlx predict gpt --prompt 'In the beginning' --max-tokens 100",
                      "mlx predict gpt@v2 --temperature 0 --json < prompt.txt",
                      "mlx predict lm --tokens '1 15 7' --logits out.npy",
                      "mlx predict lm texts.txt --embed vectors.npy --pooling mean --normalize",
                      "mlx predict lm --chat --system 'Answer in one sentence.'",
                      "mlx predict lm --chat messages.json --json",
                      "mlx predict lm -p 'As JSON: ' --schema person.schema.json",
                      "mlx predict lm -p 'Yes or no? ' --grammar 'root ::= \"yes\" | \"no\"'",
                      "mlx predict lm@v2 --speculate ngram < report.txt"};
  command.run = [options](Context& context) { return run_predict(*options, context); };
  return command;
}

}  // namespace mlx::cmd
