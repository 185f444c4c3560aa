// Finding added tokens.

#include "data/subword/added_tokens.h"

#include <algorithm>

#include "data/subword/unicode.h"
#include "data/subword/utf8.h"

namespace mlx::data::subword {
namespace {

// \w of the reference's added tokens.
bool is_word_there(char32_t code) {
  return is_word(code) || code == 0x200C || code == 0x200D;
}

}  // namespace

void AddedTokenFinder::add(const AddedToken& token, std::string_view pattern) {
  if (pattern.empty()) return;
  trie_.set(pattern, static_cast<std::int32_t>(tokens_.size()));
  tokens_.push_back(token);
  first_bytes_[static_cast<unsigned char>(pattern[0])] = true;
}

void AddedTokenFinder::cut(std::string_view whole, std::uint32_t first, std::uint32_t last,
                           std::vector<Piece>& out) const {
  const std::string_view text = whole.substr(first, last - first);
  std::size_t done = 0;
  const auto add = [&](std::size_t begin, std::size_t end, std::int32_t token) {
    out.push_back({static_cast<std::uint32_t>(first + begin), static_cast<std::uint32_t>(first + end), token});
  };
  for (std::size_t at = 0; !tokens_.empty() && at < text.size();) {
    if (!first_bytes_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    std::size_t end = 0;
    std::int32_t which = -1;
    trie_.each_prefix(text, at, [&](std::size_t found, std::int32_t value) { end = found, which = value; });
    if (which < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(which)];
    std::size_t begin = at;
    at = end;
    if (token.single_word) {
      const bool joins_before = begin > 0 && is_word_there(character_before(text.data(), text.data() + begin).code);
      const bool joins_behind = end < text.size() && is_word_there(character_at(text, end).code);
      if (joins_before || joins_behind) continue;
    }
    while (token.lstrip && begin > done) {
      const Character before = character_before(text.data() + done, text.data() + begin);
      if (!is_white_space(before.code)) break;
      begin -= before.bytes;
    }
    while (token.rstrip && end < text.size()) {
      const Character behind = character_at(text, end);
      if (!is_white_space(behind.code)) break;
      end += behind.bytes;
    }
    if (begin < done) begin = done;
    if (begin > done) add(done, begin, -1);
    add(begin, end, token.id);
    done = end;
    at = std::max(at, end);
  }
  if (done < text.size()) add(done, text.size(), -1);
}

}  // namespace mlx::data::subword
