// The grammars that requests bring, compiled for one model. The last ones are kept: clients ask with the same again and
// again. Used by text_model.cpp, on the server's I/O thread.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <utility>

#include "infer/grammar/token_grammar.h"
#include "nn/model.h"
#include "serve/generate_request.h"

namespace mlx::serve {

class TextGrammars {
 public:
  // Both outlive it.
  TextGrammars(const nn::Model& model, const data::Tokenizer& tokenizer) : model_(model), tokenizer_(tokenizer) {}

  // That of a request; null if it has none. Throws kUsage for one that is wrong or too large.
  std::shared_ptr<infer::grammar::TokenGrammar> of(const GenerateRequest& request);

 private:
  using Key = std::pair<bool, std::string>;  // whether it is a schema, and its text
  struct Kept {
    Key key;
    std::shared_ptr<const infer::grammar::Automaton> automaton;
    std::shared_ptr<infer::grammar::TokenGrammar> grammar;
  };
  std::shared_ptr<infer::grammar::TokenGrammar> made(const std::shared_ptr<const infer::grammar::Automaton>& automaton,
                                                     const Key& key);

  const nn::Model& model_;
  const data::Tokenizer& tokenizer_;
  std::shared_ptr<const infer::grammar::Vocabulary> vocabulary_;  // made when it is first needed
  std::list<Kept> kept_;                                          // the last one that was asked for first
};

}  // namespace mlx::serve
