// The grammars that requests bring, compiled for one model. The last ones are kept: clients ask with the same again and
// again. Used by text_model.h, on the server's I/O thread.
#pragma once

#include <list>
#include <memory>
#include <string>

#include "infer/grammar/token_grammar.h"
#include "nn/model.h"

namespace mlx::serve {

// What a text must be like.
struct TextShape {
  enum class Kind : std::uint8_t { kAny, kGbnf, kSchema };
  Kind kind = Kind::kAny;
  std::string source{};           // GBNF, or a JSON schema as JSON
  std::string before{}, after{};  // what the text has around it
  std::string what{};             // for messages: "parameter 'grammar'"
  bool blank = false;             // there may be a blank in front
  bool operator==(const TextShape&) const = default;
};

class TextGrammars {
 public:
  // Both outlive it.
  TextGrammars(const nn::Model& model, const data::Tokenizer& tokenizer) : model_(model), tokenizer_(tokenizer) {}

  // Null if anything is allowed. Throws kUsage for one that is wrong or too large.
  std::shared_ptr<infer::grammar::TokenGrammar> of(const TextShape& shape);

 private:
  struct Kept {
    TextShape shape;
    std::shared_ptr<const infer::grammar::Automaton> automaton;
    std::shared_ptr<infer::grammar::TokenGrammar> grammar;
  };
  std::shared_ptr<infer::grammar::TokenGrammar> made(const std::shared_ptr<const infer::grammar::Automaton>& automaton,
                                                     const TextShape& shape);

  const nn::Model& model_;
  const data::Tokenizer& tokenizer_;
  std::shared_ptr<const infer::grammar::Vocabulary> vocabulary_;  // made when it is first needed
  std::list<Kept> kept_;                                          // the last one that was asked for first
};

}  // namespace mlx::serve
