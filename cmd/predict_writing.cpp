// Grammars and schemas are files, or stand on the command line themselves.
#include "cmd/predict_writing.h"

#include <fmt/format.h>

#include <utility>

#include "base/bytes.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "base/text.h"
#include "cmd/backend.h"
#include "infer/batch_generator.h"
#include "infer/grammar/gbnf.h"
#include "infer/grammar/json_schema.h"

namespace mlx::cmd {
namespace {

constexpr std::size_t kLargestGrammar = std::size_t{2} << 20;

struct GrammarText {
  std::string text, what;
};

GrammarText source_of(const std::string& word, bool itself, const char* option, Context& context) {
  if (itself) return {word, option};
  return {std::string(as_text(read_regular_file(join_path(context.folder(), word), kLargestGrammar))), printable(word)};
}

std::shared_ptr<infer::grammar::TokenGrammar> grammar_of(const PredictOptions& options, const PredictInputs& inputs,
                                                         const std::set<std::int32_t>& ends, bool blank,
                                                         Context& context) {
  using namespace infer::grammar;
  if (options.grammar.empty() && options.schema.empty()) return nullptr;
  if (!options.grammar.empty() && !options.schema.empty())
    fail(ErrorKind::kUsage, "--grammar and --schema are both what the text is like: say one of them");
  const auto& tokenizer = inputs.model.about().preprocessing.tokenizer;
  if (!tokenizer)
    fail(ErrorKind::kUsage, "{} has no tokenizer: a grammar is of text, not of numbers", inputs.version.name());
  GrammarText source;
  Rules rules;
  if (!options.grammar.empty()) {
    source = source_of(options.grammar, options.grammar.find("::=") != std::string::npos, "--grammar", context);
    rules = parse_gbnf(source.text, source.what);
  } else {
    source =
        source_of(options.schema, options.schema.starts_with('{') || options.schema == "true", "--schema", context);
    rules = parse_schema(source.text, source.what);
  }
  auto vocabulary = std::make_shared<const Vocabulary>(*tokenizer, std::vector<std::int32_t>(ends.begin(), ends.end()));
  auto automaton = std::make_shared<const Automaton>(rules, source.what, blank);
  return std::make_shared<TokenGrammar>(std::move(vocabulary), std::move(automaton), source.what);
}

void add_speculation(const PredictOptions& options, const PredictInputs& inputs, Context& context, Writing& to) {
  if (options.speculate.empty() && options.draft.empty()) return;
  if (!options.speculate.empty() && !options.draft.empty())
    fail(ErrorKind::kUsage, "--speculate and --draft both propose tokens: say one of them");
  if (!options.speculate.empty()) to.speculation.ngram = infer::parse_ngram(options.speculate, "--speculate");
  if (!options.draft.empty()) {
    AskedModel asked = open_model(options.draft, context);
    to.draft = std::make_unique<infer::Model>(std::move(asked.model), inputs.model.backend(), context.pool(),
                                              inputs.model.cache());
    infer::check_draft(*to.draft, inputs.model, asked.version.name(), inputs.version.name());
    to.speculation.draft = to.draft.get();
    to.speculation.draft_cost = infer::draft_cost(*to.draft, inputs.model);
  }
  if (infer::can_batch(inputs.model)) return;
  to.speculation = {};
  context.progress().warn(
      fmt::format("{}: no tokens are proposed, as a pass over several tokens may round differently from one over each "
                  "(mlx-predict(1))",
                  inputs.version.name()));
}

Json to_json(const infer::LogProbability& of, const PredictInputs& inputs) {
  const auto& tokenizer = inputs.model.about().preprocessing.tokenizer;
  Json out = {{"token", of.token}};
  if (tokenizer) out["text"] = tokenizer->is_special(of.token) ? tokenizer->name(of.token) : tokenizer->piece(of.token);
  out["logprob"] = of.value;
  return out;
}

}  // namespace

void Writing::apply(infer::TextRequest& to) const {
  to.logprobs = logprobs;
  to.grammar = grammar;
  to.speculation = speculation;
}

Writing writing_of(const PredictOptions& options, const PredictInputs& inputs, const std::set<std::int32_t>& ends,
                   bool blank, Context& context) {
  Writing out;
  if (options.logprobs != kNotGiven) {
    if (options.logprobs < 0 || options.logprobs > infer::kMostLogprobs)
      fail(ErrorKind::kUsage, "--logprobs: expected an integer from 0 to {}, got {}", infer::kMostLogprobs,
           options.logprobs);
    if (!context.wants_json()) fail(ErrorKind::kUsage, "--logprobs: they are printed with --json only");
    out.logprobs = options.logprobs;
  }
  out.grammar = grammar_of(options, inputs, ends, blank, context);
  add_speculation(options, inputs, context, out);
  return out;
}

Json to_json(const std::vector<infer::LogProbabilities>& logprobs, const PredictInputs& inputs) {
  Json out = Json::array();
  for (const infer::LogProbabilities& each : logprobs) {
    Json one = to_json(each.drawn, inputs);
    one["top"] = Json::array();
    for (const infer::LogProbability& likely : each.top) one["top"].push_back(to_json(likely, inputs));
    out.push_back(std::move(one));
  }
  return out;
}

void Proposals::add(const infer::Generated& text) {
  proposed += text.proposed;
  accepted += text.accepted;
}

void Proposals::add_to(Json& speed) const {
  speed["proposed"] = proposed;
  speed["accepted"] = accepted;
}

std::string Proposals::text() const {
  return proposed > 0 ? fmt::format("; {} of {} proposed tokens were right", accepted, proposed) : "";
}

}  // namespace mlx::cmd
