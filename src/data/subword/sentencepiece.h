// Reads a tokenizer.model of SentencePiece: unigram or BPE, with its normalisation. Used by data/subword_tokenizer.h.
//
// The file is a message of protobuf (sentencepiece_model.proto); a small reader of our own takes what is needed, inside
// of the file's bytes, and skips the rest. Models of words and of characters are refused.
#pragma once

#include <string>
#include <string_view>

#include "data/subword/pipeline.h"

namespace mlx::data::subword {

// Whether the bytes may be such a file: a JSON text begins otherwise.
bool may_be_sentencepiece(std::string_view bytes);
// Throws kCorrupt, naming `what`; kUsage for what is not supported.
Pipeline read_sentencepiece(std::string_view bytes, const std::string& what);

}  // namespace mlx::data::subword
