// How long the masks of a grammar take: bench_grammar TOKENIZER.json SCHEMA.json TEXT.json
//
// The text, which the schema describes, is read token by token, as if a model had written it. Prints the time to make
// the vocabulary's trie and the automaton, and microseconds a token: of the first text of the grammar, of the next
// ones, and the slowest token of the first.
#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "data/tokenizer.h"
#include "infer/grammar/json_schema.h"
#include "infer/grammar/token_grammar.h"

using namespace mlx;
using namespace mlx::infer::grammar;

namespace {

std::string file(const char* path) {
  return std::string(as_text(read_regular_file(path, std::size_t{64} << 20)));
}

struct Times {
  double each = 0, most = 0, allowed = 0;  // seconds; tokens
};

Times read_text(const std::shared_ptr<TokenGrammar>& grammar, const std::vector<std::int32_t>& tokens) {
  Matcher matcher(grammar);
  Times out;
  for (const std::int32_t token : tokens) {
    const double begun = seconds_now();
    const auto mask = matcher.allowed();
    const bool allowed = (mask->bits[static_cast<std::size_t>(token) / 64] >> (token % 64) & 1) != 0;
    if (!allowed || !matcher.accept(token)) fail(ErrorKind::kUsage, "the text is not of the schema");
    const double took = seconds_now() - begun;
    out.each += took / static_cast<double>(tokens.size());
    out.most = std::max(out.most, took);
    out.allowed += static_cast<double>(mask->tokens) / static_cast<double>(tokens.size());
  }
  return out;
}

}  // namespace

int main(int count, char** words) {
  if (count != 4) return fmt::print("usage: bench_grammar TOKENIZER.json SCHEMA.json TEXT.json\n"), 2;
  const data::Tokenizer tokenizer = data::Tokenizer::from_file(file(words[1]), words[1]);
  const std::vector<std::int32_t> tokens = tokenizer.encode(file(words[3]), words[3]);
  double at = seconds_now();
  const auto vocabulary = std::make_shared<const Vocabulary>(tokenizer, std::vector<std::int32_t>{});
  const double trie = seconds_now() - at;
  at = seconds_now();
  const auto automaton = std::make_shared<const Automaton>(parse_schema(file(words[2]), words[2]), words[2]);
  const double compiled = seconds_now() - at;
  const auto grammar = std::make_shared<TokenGrammar>(vocabulary, automaton, words[2]);
  const Times first = read_text(grammar, tokens), next = read_text(grammar, tokens);
  fmt::print(
      "{} tokens, {} branches in {:.0f} ms; {} places in {:.1f} ms; text of {} tokens, {:.0f} allowed on average: "
      "{:.1f} us "
      "a token in the first text (the slowest {:.0f}), {:.2f} in the next\n",
      tokenizer.size(), vocabulary->branches().size(), trie * 1e3, automaton->size(), compiled * 1e3, tokens.size(),
      first.allowed, first.each * 1e6, first.most * 1e6, next.each * 1e6);
  return 0;
}
