// The best path by dynamic programming over the ends of pieces.

#include "data/subword/unigram.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/subword/utf8.h"

namespace mlx::data::subword {

void Trie::set(std::string_view text, std::int32_t value) {
  if (text.empty()) return;
  std::uint32_t node = 0;
  for (const char byte : text) {
    const std::uint64_t key = key_of(node, static_cast<unsigned char>(byte));
    std::size_t at = place_of(key);
    if (slots_[at].child == 0) {
      if (values_.size() * 2 > slots_.size()) {
        std::vector<Slot> before(slots_.size() * 2);
        before.swap(slots_);
        for (const Slot& slot : before)
          if (slot.child != 0) slots_[place_of(slot.key)] = slot;
        at = place_of(key);
      }
      slots_[at] = {key, static_cast<std::uint32_t>(values_.size())};
      values_.push_back(-1);
    }
    node = slots_[at].child;
  }
  values_[node] = value;
}

void Unigram::encode(std::string_view text, std::span<const Piece> pieces, Scratch& scratch, Tokens& out) const {
  encode_pieces(text, pieces, scratch, out,
                [&](std::string_view word, std::uint32_t base, Tokens& to) { encode_word(word, base, scratch, to); });
}

void Unigram::add_unknown(std::string_view part, std::uint32_t at, Tokens& out) const {
  const auto token_of = [this](char byte) { return spec_.byte_tokens[static_cast<unsigned char>(byte)]; };
  if (spec_.byte_fallback && std::ranges::all_of(part, [&](char byte) { return token_of(byte) >= 0; })) {
    for (const char byte : part) out.add(token_of(byte), at, at + part.size());
    return;
  }
  if (spec_.unknown < 0)
    fail(ErrorKind::kUsage, "the text has characters outside the vocabulary, which has no unknown token");
  out.add(spec_.unknown, at, at + part.size());
}

void Unigram::encode_word(std::string_view word, std::uint32_t base, Scratch& scratch, Tokens& out) const {
  std::vector<PathNode>& path = scratch.path;
  path.assign(word.size() + 1, {});
  const auto offer = [&](std::size_t begin, std::size_t end, std::int32_t token, double score) {
    PathNode& node = path[end];
    double sum = score + path[begin].score;
    if (spec_.single_precision) sum = static_cast<double>(static_cast<float>(sum));
    const bool better = node.token == -1 || sum > node.score;
    if (better) node = {sum, token, static_cast<std::uint32_t>(begin)};
  };
  constexpr std::int32_t kUnknownPiece = -2;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t next = at + character_at(word, at).bytes;
    bool single = false;
    spec_.pieces.each_prefix(word, at, [&](std::size_t end, std::int32_t token) {
      offer(at, end, token, spec_.scores[static_cast<std::size_t>(token)]);
      single |= end == next;
    });
    if (!single) offer(at, next, kUnknownPiece, spec_.unknown_score);
    at = next;
  }
  // Backwards to the beginning, then the pieces in order; neighbouring unknown ones are one.
  std::size_t end = word.size();
  std::size_t filled = path.size();  // the path, from here on
  while (end > 0) {
    PathNode node = path[end];
    const std::size_t begin = node.begin;
    if (node.token == spec_.unknown) node.token = kUnknownPiece;
    node.begin = static_cast<std::uint32_t>(end);  // its end, from now on
    path[--filled] = node;
    end = begin;
  }
  for (std::size_t begin = 0; filled < path.size();) {
    const std::int32_t token = path[filled].token;
    std::size_t piece_end = path[filled++].begin;
    while (token == kUnknownPiece && filled < path.size() && path[filled].token == kUnknownPiece)
      piece_end = path[filled++].begin;
    if (token == kUnknownPiece) {
      add_unknown(word.substr(begin, piece_end - begin), static_cast<std::uint32_t>(base + begin), out);
    } else {
      out.add(token, base + begin, base + piece_end);
    }
    begin = piece_end;
  }
}

}  // namespace mlx::data::subword
