// Looks for the longest piece first, as the reference does.

#include "data/subword/word_piece.h"

#include <algorithm>

#include "base/error.h"
#include "data/subword/utf8.h"

namespace mlx::data::subword {

namespace {

// `end`, or where the character begins that it stands in.
std::size_t character_boundary(std::string_view text, std::size_t end) {
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return end;
}

}  // namespace

void WordPiece::encode(std::string_view text, std::span<const Piece> pieces, Scratch& scratch, Tokens& out) const {
  encode_pieces(text, pieces, scratch, out,
                [&](std::string_view word, std::uint32_t base, Tokens& to) { encode_word(word, base, to); });
}

void WordPiece::add_unknown(std::string_view word, std::uint32_t base, Tokens& out) const {
  if (spec_.unknown < 0)
    fail(ErrorKind::kUsage, "the text has words outside the vocabulary, which has no unknown token");
  out.add(spec_.unknown, base, base + word.size());
}

void WordPiece::encode_word(std::string_view word, std::uint32_t base, Tokens& out) const {
  if (spec_.whole_words) {
    const std::int32_t token = spec_.first.find(word);
    return token >= 0 ? out.add(token, base, base + word.size()) : add_unknown(word, base, out);
  }
  std::size_t characters = 0;
  for (std::size_t at = 0; at < word.size(); ++characters) at += character_at(word, at).bytes;
  if (characters > spec_.most_characters) return add_unknown(word, base, out);
  const std::size_t before = out.ids.size();
  for (std::size_t at = 0; at < word.size();) {
    const StringTable& pieces = at == 0 ? spec_.first : spec_.later;
    std::size_t end = character_boundary(word, std::min(word.size(), at + pieces.longest()));
    std::int32_t token = StringTable::kNone;
    while (end > at && (token = pieces.find(word.substr(at, end - at))) < 0)
      end -= character_before(word.data() + at, word.data() + end).bytes;
    if (token < 0) {
      out.ids.resize(before);
      if (out.with_spans) out.spans.resize(before);
      return add_unknown(word, base, out);
    }
    out.add(token, base + at, base + end);
    at = end;
  }
}

}  // namespace mlx::data::subword
