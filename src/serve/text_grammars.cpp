// See text_grammars.h.
#include "serve/text_grammars.h"

#include <algorithm>
#include <set>
#include <utility>

#include "data/tokenizer.h"
#include "infer/chat.h"
#include "infer/grammar/gbnf.h"
#include "infer/grammar/json_schema.h"

namespace mlx::serve {
namespace {

constexpr std::size_t kMostKept = 8;

infer::grammar::Rules rules_of(const TextShape& shape) {
  infer::grammar::Rules rules = shape.kind == TextShape::Kind::kSchema
                                    ? infer::grammar::parse_schema(shape.source, shape.what)
                                    : infer::grammar::parse_gbnf(shape.source, shape.what);
  if (shape.before.empty() && shape.after.empty()) return rules;
  return infer::grammar::between(shape.before, std::move(rules), shape.after);
}

}  // namespace

std::shared_ptr<infer::grammar::TokenGrammar> TextGrammars::made(
    const std::shared_ptr<const infer::grammar::Automaton>& automaton, const TextShape& shape) {
  if (!vocabulary_) {
    const std::set<std::int32_t> ends = infer::end_tokens(model_, tokenizer_);
    vocabulary_ = std::make_shared<const infer::grammar::Vocabulary>(
        tokenizer_, std::vector<std::int32_t>(ends.begin(), ends.end()));
  }
  return std::make_shared<infer::grammar::TokenGrammar>(vocabulary_, automaton, shape.what);
}

std::shared_ptr<infer::grammar::TokenGrammar> TextGrammars::of(const TextShape& shape) {
  if (shape.kind == TextShape::Kind::kAny) return nullptr;
  const auto found = std::ranges::find(kept_, shape, &Kept::shape);
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    if (found->grammar->is_full()) found->grammar = made(found->automaton, shape);
    return found->grammar;
  }
  auto automaton = std::make_shared<const infer::grammar::Automaton>(rules_of(shape), shape.what, shape.blank);
  auto grammar = made(automaton, shape);
  kept_.push_front({shape, std::move(automaton), grammar});
  if (kept_.size() > kMostKept) kept_.pop_back();
  return grammar;
}

}  // namespace mlx::serve
