// A tokenizer of another program's file behind the interface of Tokenizer: it keeps the file, and hands out working
// memory to the threads that encode. Used by tokenizer.cpp.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "data/subword/pipeline.h"
#include "data/subword/sentencepiece.h"
#include "data/tokenizer.h"

namespace mlx::data {

struct Tokenizer::Subword {
 public:
  // As Tokenizer::from_file.
  Subword(std::string file, const std::string& what);

  const std::string& kind() const { return pipeline_.kind; }
  const std::string& file() const { return file_; }
  bool is_sentencepiece() const { return subword::may_be_sentencepiece(file_); }
  std::int64_t size() const { return static_cast<std::int64_t>(pipeline_.names.size()); }
  std::string_view piece(std::int32_t token) const { return pipeline_.pieces[static_cast<std::size_t>(token)]; }
  std::string_view name(std::int32_t token) const {
    return token >= 0 && token < size() ? pipeline_.names[static_cast<std::size_t>(token)] : std::string_view();
  }
  bool is_special(std::int32_t token) const {
    return token >= 0 && token < size() && pipeline_.special[static_cast<std::size_t>(token)];
  }
  // Throw kUsage, naming `what`.
  std::vector<std::int32_t> encode(std::string_view text, std::string_view what, bool begins) const;
  PlacedTokens encode_placed(std::string_view text, std::string_view what, bool special) const;
  std::string decode(std::span<const std::int32_t> tokens, bool skip_special) const;

 private:
  subword::Tokens run(std::string_view text, std::string_view what, const subword::EncodeOptions& options) const;

  std::string file_;
  subword::Pipeline pipeline_;
  mutable std::mutex mutex_;  // of idle_
  mutable std::vector<std::unique_ptr<subword::Scratch>> idle_;
};

// The bytes at the end of a part of a text whose words may go on in the next part. A part ends behind a line end that a
// word follows, or before a blank between words if no line ends; no published pattern has words across them.
std::size_t unfinished_words(std::string_view text);

}  // namespace mlx::data
