// See text_grammars.h.
#include "serve/text_grammars.h"

#include <algorithm>
#include <set>

#include "data/tokenizer.h"
#include "infer/chat.h"
#include "infer/grammar/gbnf.h"
#include "infer/grammar/json_schema.h"

namespace mlx::serve {
namespace {

constexpr std::size_t kMostKept = 8;

const char* name_of(bool schema) {
  return schema ? "parameter 'json_schema'" : "parameter 'grammar'";
}

}  // namespace

std::shared_ptr<infer::grammar::TokenGrammar> TextGrammars::made(
    const std::shared_ptr<const infer::grammar::Automaton>& automaton, const Key& key) {
  if (!vocabulary_) {
    const std::set<std::int32_t> ends = infer::end_tokens(model_, tokenizer_);
    vocabulary_ = std::make_shared<const infer::grammar::Vocabulary>(
        tokenizer_, std::vector<std::int32_t>(ends.begin(), ends.end()));
  }
  return std::make_shared<infer::grammar::TokenGrammar>(vocabulary_, automaton, name_of(key.first));
}

std::shared_ptr<infer::grammar::TokenGrammar> TextGrammars::of(const GenerateRequest& request) {
  if (request.grammar.empty() && request.schema.empty()) return nullptr;
  const bool schema = request.grammar.empty();
  Key key{schema, schema ? request.schema : request.grammar};
  const auto found = std::ranges::find(kept_, key, &Kept::key);
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    if (found->grammar->is_full()) found->grammar = made(found->automaton, key);
    return found->grammar;
  }
  const std::string name = name_of(schema);
  auto automaton = std::make_shared<const infer::grammar::Automaton>(
      schema ? infer::grammar::parse_schema(key.second, name) : infer::grammar::parse_gbnf(key.second, name), name);
  auto grammar = made(automaton, key);
  kept_.push_front({std::move(key), std::move(automaton), grammar});
  if (kept_.size() > kMostKept) kept_.pop_back();
  return grammar;
}

}  // namespace mlx::serve
