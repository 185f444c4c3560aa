// Which tokens a text may go on with, so that the whole of it is a text of a grammar. A token's bytes may lead through
// any number of the grammar's places: the vocabulary is a trie that is walked with the automaton's sets of states, and
// the tokens of each set are kept.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "infer/grammar/states.h"

namespace mlx::data {
class Tokenizer;
}

namespace mlx::infer::grammar {

// A model's tokens by their bytes. It does not change once it is made.
class Vocabulary {
 public:
  // `ends`: tokens that end a text. Special tokens, and those without bytes, are part of no text.
  Vocabulary(const data::Tokenizer& tokenizer, std::vector<std::int32_t> ends);

  struct Branch {
    std::uint32_t behind = 0;            // the branch after all that begin with this one
    std::uint32_t first = 0, count = 0;  // the tokens that are these bytes, in tokens()
    std::uint16_t depth = 0;             // bytes
    std::uint8_t byte = 0;
  };
  const std::vector<Branch>& branches() const { return branches_; }  // depth first
  const std::vector<std::int32_t>& tokens() const { return tokens_; }
  std::size_t deepest() const { return deepest_; }
  std::size_t size() const { return bytes_.size(); }
  bool ends(std::int32_t token) const;
  const std::vector<std::int32_t>& ends() const { return ends_; }
  const std::string& bytes(std::int32_t token) const { return bytes_[static_cast<std::size_t>(token)]; }

 private:
  std::vector<std::string> bytes_;  // by token; "" of those that are part of no text
  std::vector<std::int32_t> ends_, tokens_;
  std::vector<Branch> branches_;
  std::size_t deepest_ = 0;
};

struct Mask {
  std::vector<std::uint64_t> bits;  // by token, 64 in a word
  std::int64_t tokens = 0;          // that it allows
};

// A grammar for one vocabulary. Any number of texts share it, and threads.
class TokenGrammar {
 public:
  // `what` names the grammar in messages.
  TokenGrammar(std::shared_ptr<const Vocabulary> vocabulary, std::shared_ptr<const Automaton> automaton,
               std::string what);

  const Vocabulary& vocabulary() const { return *vocabulary_; }
  // Whether it remembers so much that another one should take its place for new texts.
  bool is_full() const;

 private:
  friend class Matcher;
  struct Kept {
    std::uint64_t epoch = 0;
    States::Set set = States::kNone;
  };
  // All with the mutex held.
  States::Set set_of(const Places& places, Kept& kept);
  const std::shared_ptr<const Mask>& mask_of(States::Set set);
  std::shared_ptr<const Mask> make_mask(States::Set set);
  void make_room();

  std::shared_ptr<const Vocabulary> vocabulary_;
  std::string what_;
  mutable std::mutex mutex_;
  States states_;
  std::unordered_map<States::Set, std::shared_ptr<const Mask>> masks_;
  std::uint64_t epoch_ = 1;  // of the sets' numbers
};

// One text.
class Matcher {
 public:
  explicit Matcher(std::shared_ptr<TokenGrammar> grammar);

  // The tokens that may come next; those that end a text, where it may end. None only where it must end. Throws kUsage
  // if the grammar goes on with what no token has.
  std::shared_ptr<const Mask> allowed();
  // Goes on with a token that is allowed. False if it ends the text.
  bool accept(std::int32_t token);
  bool complete();  // nothing may follow

 private:
  std::shared_ptr<TokenGrammar> grammar_;
  Places places_;
  TokenGrammar::Kept kept_;
};

}  // namespace mlx::infer::grammar
