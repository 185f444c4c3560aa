// What turns a word into tokens: byte pair encoding, unigram, WordPiece, whole words. Used by pipeline.h; made by
// tokenizer_json.h and sentencepiece.h.
//
// A model does not change; any number of threads may use it, each with its own Scratch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/subword/aligned_text.h"
#include "data/subword/pre_tokenizer.h"
#include "data/subword/word_cache.h"

namespace mlx::data::subword {

constexpr std::int32_t kMostTokens = 1 << 24;  // of a vocabulary

// Tokens, and where each stands in the text that was cut, if that is wanted.
struct Tokens {
  std::vector<std::int32_t> ids;
  std::vector<Span> spans;
  bool with_spans = false;
  void add(std::int32_t id, std::size_t begin, std::size_t end) {
    ids.push_back(id);
    if (with_spans) spans.push_back({static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
  }
};

// A symbol of a word that is being merged: BPE's working memory.
struct Symbol {
  std::int32_t id = 0;
  std::uint32_t begin = 0, end = 0;
  std::int32_t before = -1, behind = -1;
};
struct PairAt {
  std::uint32_t rank = 0, at = 0;
  std::int32_t made = 0;
};
struct PathNode {
  double score = 0;
  std::int32_t token = -1;
  std::uint32_t begin = ~std::uint32_t{0};
};

// What a thread reuses from word to word, and from text to text.
struct Scratch {
  WordCache words;
  std::vector<Symbol> symbols;
  std::vector<PairAt> pairs;
  std::vector<PathNode> path;
  std::string key;
  Tokens word;
  PreTokens tokens;
  std::vector<Piece> marked;
};

class Model {
 public:
  virtual ~Model() = default;
  // The tokens of each piece of `text`, in order; of an added token, itself. Throws kUsage where a word has none.
  virtual void encode(std::string_view text, std::span<const Piece> pieces, Scratch& scratch, Tokens& out) const = 0;
};
using ModelPtr = std::unique_ptr<const Model>;

// Calls `encode(word, begin)` for the words that the cache does not know, and fills it. A word's tokens do not depend
// on where it stands.
template <typename EncodeWord>
void encode_pieces(std::string_view text, std::span<const Piece> pieces, Scratch& scratch, Tokens& out,
                   const EncodeWord& encode) {
  for (const Piece& piece : pieces) {
    if (piece.token >= 0) {
      out.add(piece.token, piece.begin, piece.end);
      continue;
    }
    const std::string_view word = text.substr(piece.begin, piece.end - piece.begin);
    if (out.with_spans || word.size() > WordCache::kLongestWord) {
      encode(word, piece.begin, out);
      continue;
    }
    WordCache::Entry& entry = scratch.words.entry(word);
    if (!entry.holds(word)) {
      scratch.word.ids.clear();
      encode(word, 0, scratch.word);
      entry.set(word, scratch.word.ids);
      if (!entry.holds(word)) {
        out.ids.insert(out.ids.end(), scratch.word.ids.begin(), scratch.word.ids.end());
        continue;
      }
    }
    entry.append_to(out.ids);
  }
}

}  // namespace mlx::data::subword
