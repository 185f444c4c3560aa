// Cutting and merging. Short words keep their pairs' ranks in an array that is searched for the least; long ones have
// a heap. Both merge in the same order.

#include "data/subword/bpe.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/error.h"
#include "data/subword/utf8.h"

namespace mlx::data::subword {
namespace {

constexpr std::size_t kFewSymbols = 48;
constexpr std::uint32_t kNoRank = ~std::uint32_t{0};

// The end of the word at `at`: before the next mark that another character stands before.
std::size_t marked_word_end(std::string_view text, std::size_t at) {
  while (text.substr(at).starts_with(kWordMark)) at += kWordMark.size();
  return std::min(text.find(kWordMark, at), text.size());
}

}  // namespace

void MergeTable::reserve(std::size_t count) {
  std::vector<Merge> before(std::bit_ceil(count * 2 + 2));
  if (before.size() <= slots_.size()) return;
  before.swap(slots_);
  for (const Merge& merge : before)
    if (merge.made >= 0) slots_[place_of(merge.pair)] = merge;
}

void MergeTable::set(std::int32_t left, std::int32_t right, std::uint32_t rank, std::int32_t made) {
  if ((count_ + 1) * 2 > slots_.size()) reserve(slots_.size());
  const std::uint64_t pair = std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
  Merge& slot = slots_[place_of(pair)];
  count_ += slot.made < 0 ? 1 : 0;
  slot = {pair, rank, made};
}

Bpe::Bpe(BpeSpec spec, StringTable strings, MergeTable merges)
    : spec_(std::move(spec)), strings_(std::move(strings)), merges_(std::move(merges)) {
  plain_ = spec_.prefix.empty() && spec_.suffix.empty();
  for (std::size_t byte = 0; byte < single_.size(); ++byte) {
    const char text = static_cast<char>(static_cast<unsigned char>(byte));
    single_[byte] = spec_.bytes || byte < 128 ? strings_.find({&text, 1}) : StringTable::kNone;
  }
}

bool marks_inside(std::string_view name) {
  return marked_word_end(name, 0) != name.size();
}

void Bpe::encode(std::string_view text, std::span<const Piece> pieces, Scratch& scratch, Tokens& out) const {
  const auto encode = [&](std::string_view word, std::uint32_t base, Tokens& to) {
    encode_word(word, base, scratch, to);
  };
  if (!spec_.word_mark) return encode_pieces(text, pieces, scratch, out, encode);
  scratch.marked.clear();
  for (const Piece& piece : pieces) {
    if (piece.token >= 0) {
      scratch.marked.push_back(piece);
      continue;
    }
    const std::string_view whole = text.substr(0, piece.end);
    for (std::size_t at = piece.begin; at < piece.end;) {
      const std::size_t end = marked_word_end(whole, at);
      scratch.marked.push_back({static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(end), -1});
      at = end;
    }
  }
  encode_pieces(text, scratch.marked, scratch, out, encode);
}

void Bpe::encode_word(std::string_view word, std::uint32_t base, Scratch& scratch, Tokens& out) const {
  if (spec_.whole_words) {
    const std::int32_t token = strings_.find(word);
    if (token >= 0) return out.add(token, base, base + word.size());
  }
  cut(word, scratch);
  merge(word, base, scratch, out);
}

std::int32_t Bpe::first_symbol(std::string_view part, bool first, bool last, Scratch& scratch) const {
  if (plain_ || (first && !last && spec_.prefix.empty())) {
    if (part.size() == 1) return single_[static_cast<unsigned char>(part[0])];
    return strings_.find(part);
  }
  scratch.key.clear();
  if (!first) scratch.key += spec_.prefix;
  scratch.key += part;
  if (last) scratch.key += spec_.suffix;
  return strings_.find(scratch.key);
}

void Bpe::cut(std::string_view word, Scratch& scratch) const {
  scratch.symbols.clear();
  bool unknown = false;  // the last symbol is one that the next may join
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t bytes = spec_.bytes ? 1 : character_at(word, at).bytes;
    const std::string_view part = word.substr(at, bytes);
    const std::int32_t symbol = first_symbol(part, at == 0, at + bytes == word.size(), scratch);
    const auto begin = static_cast<std::uint32_t>(at), end = static_cast<std::uint32_t>(at + bytes);
    at += bytes;
    if (symbol >= 0) {
      scratch.symbols.push_back({symbol, begin, end});
      unknown = false;
      continue;
    }
    add_unknown(part, begin, unknown, scratch);
    unknown = spec_.fuse_unknown && spec_.unknown >= 0 && !scratch.symbols.empty() &&
              scratch.symbols.back().id == spec_.unknown && scratch.symbols.back().end == end;
  }
}

void Bpe::add_unknown(std::string_view part, std::uint32_t at, bool follows_unknown, Scratch& scratch) const {
  const auto token_of = [this](char byte) { return spec_.byte_tokens[static_cast<unsigned char>(byte)]; };
  if (spec_.byte_fallback && std::ranges::all_of(part, [&](char byte) { return token_of(byte) >= 0; })) {
    for (const char byte : part) {
      scratch.symbols.push_back({token_of(byte), at, at + 1});
      ++at;
    }
    return;
  }
  const auto end = static_cast<std::uint32_t>(at + part.size());
  if (follows_unknown) {
    scratch.symbols.back().end = end;
  } else if (spec_.unknown >= 0) {
    scratch.symbols.push_back({spec_.unknown, at, end});
  } else if (!spec_.unknown_name.empty()) {
    fail(ErrorKind::kUsage, "the text has characters outside the vocabulary, which has no token '{}'",
         spec_.unknown_name);
  }
}

void Bpe::merge(std::string_view word, std::uint32_t base, Scratch& scratch, Tokens& out) const {
  std::vector<Symbol>& symbols = scratch.symbols;
  if (symbols.size() > kFewSymbols) {
    merge_many(symbols, scratch.pairs);
  } else if (symbols.size() > 1) {
    merge_few(symbols, scratch.pairs);
  }
  if (std::ranges::any_of(symbols, [this](const Symbol& symbol) { return symbol.id >= spec_.tokens; }))
    replace_left_over(word, scratch);
  for (const Symbol& symbol : symbols) out.add(symbol.id, base + symbol.begin, base + symbol.end);
}

// Characters that were to be merged and are no tokens by themselves.
void Bpe::replace_left_over(std::string_view word, Scratch& scratch) const {
  const std::vector<Symbol> merged = std::move(scratch.symbols);
  scratch.symbols.clear();
  bool unknown = false;
  for (const Symbol& symbol : merged) {
    if (symbol.id < spec_.tokens) {
      scratch.symbols.push_back(symbol);
    } else {
      add_unknown(word.substr(symbol.begin, symbol.end - symbol.begin), symbol.begin, unknown, scratch);
    }
    unknown = spec_.fuse_unknown && !scratch.symbols.empty() && scratch.symbols.back().id == spec_.unknown;
  }
}

void Bpe::merge_few(std::vector<Symbol>& symbols, std::vector<PairAt>& pairs) const {
  std::size_t count = symbols.size();
  pairs.resize(count);
  const auto look = [&](std::size_t i) {
    const MergeTable::Merge& merge = merges_.find(symbols[i].id, symbols[i + 1].id);
    pairs[i].rank = merge.made >= 0 ? merge.rank : kNoRank;
    pairs[i].made = merge.made;
  };
  for (std::size_t i = 0; i + 1 < count; ++i) look(i);
  while (count > 1) {
    std::size_t best = 0;
    for (std::size_t i = 1; i + 1 < count; ++i)
      if (pairs[i].rank < pairs[best].rank) best = i;
    if (pairs[best].rank == kNoRank) break;
    symbols[best].id = pairs[best].made;
    symbols[best].end = symbols[best + 1].end;
    for (std::size_t i = best + 1; i + 1 < count; ++i) {
      symbols[i] = symbols[i + 1];
      pairs[i] = pairs[i + 1];
    }
    --count;
    if (best > 0) look(best - 1);
    if (best + 1 < count) look(best);
  }
  symbols.resize(count);
}

void Bpe::merge_many(std::vector<Symbol>& symbols, std::vector<PairAt>& pairs) const {
  const auto later = [](const PairAt& a, const PairAt& b) { return a.rank != b.rank ? a.rank > b.rank : a.at > b.at; };
  const auto look = [&](std::int32_t at) {
    if (at < 0) return;
    const Symbol& symbol = symbols[static_cast<std::size_t>(at)];
    if (symbol.behind < 0) return;
    const MergeTable::Merge& merge = merges_.find(symbol.id, symbols[static_cast<std::size_t>(symbol.behind)].id);
    if (merge.made >= 0) pairs.push_back({merge.rank, static_cast<std::uint32_t>(at), merge.made});
  };
  const auto count = static_cast<std::int32_t>(symbols.size());
  for (std::int32_t i = 0; i < count; ++i) {
    symbols[static_cast<std::size_t>(i)].before = i - 1;
    symbols[static_cast<std::size_t>(i)].behind = i + 1 < count ? i + 1 : -1;
  }
  pairs.clear();
  for (std::int32_t i = 0; i < count; ++i) look(i);
  std::ranges::make_heap(pairs, later);
  while (!pairs.empty()) {
    std::ranges::pop_heap(pairs, later);
    const PairAt pair = pairs.back();
    pairs.pop_back();
    Symbol& left = symbols[pair.at];
    if (left.id < 0 || left.behind < 0) continue;
    Symbol& right = symbols[static_cast<std::size_t>(left.behind)];
    const MergeTable::Merge& merge = merges_.find(left.id, right.id);
    if (merge.made != pair.made || merge.rank != pair.rank) continue;  // one of them was merged meanwhile
    left.id = pair.made;
    left.end = right.end;
    left.behind = right.behind;
    right.id = -1;
    if (left.behind >= 0) symbols[static_cast<std::size_t>(left.behind)].before = static_cast<std::int32_t>(pair.at);
    for (const std::int32_t at : {left.before, static_cast<std::int32_t>(pair.at)}) {
      const std::size_t before = pairs.size();
      look(at);
      if (pairs.size() > before) std::ranges::push_heap(pairs, later);
    }
  }
  std::erase_if(symbols, [](const Symbol& symbol) { return symbol.id < 0; });
}

}  // namespace mlx::data::subword
