// Text as examples: one long sequence of tokens in a spool (spool.h), cut into windows. Used by training and evaluation
// of language models.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/progress.h"
#include "data/spool.h"
#include "data/tokenizer.h"
#include "store/pack/store.h"

namespace mlx::data {

// Tokens as unsigned integers of 1, 2 or 4 bytes, as few as the vocabulary allows. Tokenizer::kUnknown is the largest
// one; a tokenizer that takes all text needs none. In masked text the lowest bit says whether the token is learned.
struct TokenCode {
  TokenCode(const Tokenizer& tokenizer, bool masked);
  void pack(std::span<const std::int32_t> tokens, bool learned, std::uint8_t* to) const;
  void unpack(const std::uint8_t* from, std::int64_t count, std::int32_t* to) const;
  // Tokenizer::kUnknown for tokens that are not learned.
  void unpack_labels(const std::uint8_t* from, std::int64_t count, std::int32_t* to) const;

  int bytes = 4;
  int shift = 0;              // 1 in masked text
  std::uint32_t unknown = 0;  // before the shift; 0: none
};

struct Text {
  SpoolPtr spool;                              // of tokens
  std::int64_t unknown = 0;                    // of them, in no vocabulary
  std::shared_ptr<const Tokenizer> tokenizer;  // what they were made with
  bool masked = false;                         // some tokens are context only: they are read, but not learned

  TokenCode code() const { return {*tokenizer, masked}; }
  std::int64_t count() const { return spool->count(); }
  std::vector<std::int32_t> tokens(std::int64_t begin, std::int64_t end) const;
};
Text text_of(std::span<const std::int32_t> tokens, std::shared_ptr<const Tokenizer> tokenizer,
             const MemoryBudget& budget = {});

// A piece of text, which ends between characters.
struct TextRun {
  std::string_view text;
  bool learned = true;  // false only in a masked source
  bool begins = true;   // a text begins here: the first piece of plain text, each document
};
// Gets a run and its offset in the whole text; returns false when it has had enough.
using VisitText = std::function<bool(const TextRun&, std::uint64_t)>;
// Where text comes from. `scan` visits all of it in order, any number of times; runs end where the tokenizer's tokens
// do not depend on what follows.
struct TextSource {
  std::string name;  // for messages: its files
  std::function<void(const Tokenizer*, const VisitText&)> scan;
  bool masked = false;
};
// The concatenated files; kCorrupt for damaged gzip. The arguments outlive the source.
TextSource file_source(const store::Store& store, const std::vector<store::Entry>& files, Progress& progress);

// A tokenizer that is made from the text: "bytes", "chars", or "bpe" with so many tokens.
struct WantedTokenizer {
  std::string kind;
  std::int64_t vocabulary = 0;
};

// Reads all of it. With `tokenizer`, unknown characters become Tokenizer::kUnknown; otherwise the wanted one is made
// from the text, which "chars" and "bpe" read twice. Throws kUsage if "chars" meets invalid UTF-8 or "bpe" too little
// text, kCorrupt if there is no text.
Text read_text(const TextSource& source, const WantedTokenizer& wanted, std::shared_ptr<const Tokenizer> tokenizer,
               const MemoryBudget& budget, Progress& progress);

// A tokenizer of the kind "bpe" from a split of text; `column` as in a config. Throws kUsage if it holds no text, or
// too little of it.
Tokenizer make_bpe(const store::Store& store, const Digest& manifest, const std::string& split,
                   const std::string& column, std::int64_t vocabulary, const std::vector<std::string>& special,
                   Progress& progress);
// The same from a source.
Tokenizer make_bpe(const TextSource& source, std::int64_t vocabulary, const std::vector<std::string>& special,
                   Progress& progress);

// Of the tokens [begin, end): the index from which the last ones have at least `bytes` together, `begin` if all of them
// have no more; and the bytes of all.
std::int64_t end_of(const Text& text, std::int64_t begin, std::int64_t end, std::int64_t bytes);
std::int64_t byte_count(const Text& text, std::int64_t begin, std::int64_t end);

}  // namespace mlx::data
