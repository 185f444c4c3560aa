// The tokens of words that were met lately: a table of fixed size, one word a place, the newest wins. Used by models.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "data/subword/string_table.h"

namespace mlx::data::subword {

class WordCache {
 public:
  static constexpr std::size_t kLongestWord = 30, kMostTokens = 8, kWords = 1 << 15;

  struct Entry {
    std::uint8_t length = 0, count = 0;  // 0: no word
    char word[kLongestWord] = {};
    std::int32_t tokens[kMostTokens] = {};

    bool holds(std::string_view text) const {
      return length == text.size() && std::memcmp(word, text.data(), text.size()) == 0;
    }
    // Does nothing where there are too many tokens.
    void set(std::string_view text, const std::vector<std::int32_t>& ids) {
      if (ids.size() > kMostTokens || ids.empty()) return;
      length = static_cast<std::uint8_t>(text.size());
      count = static_cast<std::uint8_t>(ids.size());
      std::memcpy(word, text.data(), text.size());
      std::memcpy(tokens, ids.data(), ids.size() * sizeof tokens[0]);
    }
    void append_to(std::vector<std::int32_t>& ids) const { ids.insert(ids.end(), tokens, tokens + count); }
  };

  // The place of a word; `word` is not empty and at most kLongestWord bytes long.
  Entry& entry(std::string_view word) {
    if (entries_.empty()) entries_.resize(kWords);
    return entries_[hash_bytes(word) % kWords];
  }

 private:
  std::vector<Entry> entries_;  // empty until the first word
};

}  // namespace mlx::data::subword
