// Makes a tokenizer of the kind "bpe" from text (subword/bpe_train.h). Used by text datasets and `mlx tokenizer train`.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "data/tokenizer.h"

namespace mlx::data {

class BpeMaker {
 public:
  static constexpr std::int64_t kLeast = 257, kMost = 1 << 20;  // tokens

  BpeMaker();
  ~BpeMaker();
  // A tokenizer whose unfinished() says where a text may be cut for add().
  static Tokenizer cutting();
  void add(std::string_view text);
  // Throws kUsage, naming `what`, if the text gives fewer tokens.
  Tokenizer tokenizer(std::int64_t vocabulary, const std::vector<std::string>& special, const std::string& what,
                      Progress& progress) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace mlx::data
