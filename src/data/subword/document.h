// A tokenizer.json as it is read: the vocabulary of a model apart, which has a hundred thousand keys, and the rest as
// JSON. Used by tokenizer_json.h.
//
// Memory and time stay in proportion to the text: nesting is bounded, and so are the keys of other objects.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace mlx::data::subword {

struct Document {
  Json rest;                                                     // without model.vocab, if that is an object
  bool has_vocabulary = false;                                   // model.vocab is an object
  std::vector<std::pair<std::string, std::int64_t>> vocabulary;  // its keys and numbers; a number that is none is -1
};

// Throws kCorrupt: "WHAT: line 3, column 7: why".
Document read_document(std::string_view text, const std::string& what);

}  // namespace mlx::data::subword
