// Text to tokens, step by step, and back.

#include "data/subword/pipeline.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "data/subword/bpe.h"
#include "data/subword/unicode.h"

namespace mlx::data::subword {
namespace {

constexpr std::size_t kLongestText = std::size_t{1} << 30;

std::string_view part_of(std::string_view text, const Piece& piece) {
  return text.substr(piece.begin, piece.end - piece.begin);
}

// Of an added token all white space counts; in the names of others only a blank is seen as one.
bool is_blank(const Character& character, bool added) {
  return added ? is_white_space(character.code) : character.code == ' ';
}

std::size_t leading_blanks(std::string_view text, bool added) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); ++count) {
    const Character character = character_at(text, at);
    if (!is_blank(character, added)) break;
    at += character.bytes;
  }
  return count;
}

std::size_t trailing_blanks(std::string_view text, bool added) {
  std::size_t count = 0;
  for (std::size_t end = text.size(); end > 0; ++count) {
    const Character character = character_before(text.data(), text.data() + end);
    if (!is_blank(character, added)) break;
    end -= character.bytes;
  }
  return count;
}

}  // namespace

// Cuts out the added tokens, and normalises what is between them.
void Pipeline::normalize(std::string_view text, PreTokens& tokens, bool begins) const {
  std::vector<Piece>& parts = tokens.pieces;
  added.cut(text, 0, static_cast<std::uint32_t>(text.size()), parts);
  tokens.text = text;
  tokens.begins = begins || (!parts.empty() && parts[0].token >= 0);
  const auto stays = [&](const Piece& piece) { return piece.token >= 0 || normalizer->keeps(part_of(text, piece)); };
  if (normalizer && !std::ranges::all_of(parts, stays)) {
    tokens.own.clear(tokens.aligned);
    AlignedText part;
    bool first = begins;
    for (Piece& piece : parts) {
      part.assign(part_of(text, piece), piece.begin, tokens.aligned);
      if (piece.token < 0) normalizer->apply(part, std::exchange(first, true));
      piece.begin = static_cast<std::uint32_t>(tokens.own.text().size());
      tokens.own.append(part);
      piece.end = static_cast<std::uint32_t>(tokens.own.text().size());
    }
    std::erase_if(parts, [](const Piece& piece) { return piece.begin == piece.end; });
    tokens.text = tokens.own.text();
    tokens.rewritten = true;
  }
  if (normalized_added.empty()) return;
  tokens.next.clear();
  for (const Piece& piece : parts) {
    if (piece.token >= 0) {
      tokens.next.push_back(piece);
    } else {
      normalized_added.cut(tokens.text, piece.begin, piece.end, tokens.next);
    }
  }
  parts.swap(tokens.next);
}

void Pipeline::encode(std::string_view text, const EncodeOptions& options, Scratch& scratch, Tokens& out) const {
  if (text.size() > kLongestText) fail(ErrorKind::kUsage, "a text of more than 1 GiB is too long for its tokens");
  PreTokens& tokens = scratch.tokens;
  tokens.pieces.clear();
  tokens.rewritten = false;
  tokens.aligned = options.spans;
  normalize(text, tokens, options.begins);
  for (const PreTokenizerPtr& step : pre_tokenizers.steps) step->apply(tokens);

  out.with_spans = options.spans;
  if (options.special) {
    out.ids.insert(out.ids.end(), before.begin(), before.end());
    if (options.spans) out.spans.resize(out.ids.size());
  }
  const std::size_t first = out.spans.size();
  model->encode(tokens.text, tokens.pieces, scratch, out);
  for (std::size_t i = first; i < out.spans.size(); ++i) {
    Span& span = out.spans[i];
    if (span.begin < span.end) span = {tokens.span_at(span.begin).begin, tokens.span_at(span.end - 1).end};
  }
  if (options.spans && trim.on) trim_spans(text, out);
  if (options.special) {
    out.ids.insert(out.ids.end(), behind.begin(), behind.end());
    if (options.spans) out.spans.resize(out.ids.size());
  }
}

// As the reference does it: by as many characters of the text as the token has blanks. An added token has those that it
// took in.
void Pipeline::trim_spans(std::string_view text, Tokens& out) const {
  for (std::size_t i = 0; i < out.spans.size(); ++i) {
    Span& span = out.spans[i];
    const auto id = static_cast<std::size_t>(out.ids[i]);
    const bool added_one = is_added[id];
    const std::string_view blanks =
        added_one ? text.substr(span.begin, span.end - span.begin) : std::string_view(pieces[id]);
    std::size_t leading = leading_blanks(blanks, added_one), trailing = trailing_blanks(blanks, added_one);
    if ((i == 0 || span.begin == 0) && trim.prefix_space && leading == 1) leading = 0;
    for (; leading > 0 && span.begin < span.end; --leading)
      span.begin = std::min(span.begin + character_at(text, span.begin).bytes, span.end);
    for (; trailing > 0 && span.begin < span.end; --trailing)
      span.end -= character_before(text.data() + span.begin, text.data() + span.end).bytes;
  }
}

std::string Pipeline::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  std::vector<std::string> found;
  for (const std::int32_t id : ids) {
    const auto at = static_cast<std::size_t>(id);
    if (id < 0 || at >= names.size() || (skip_special && special[at])) continue;
    const auto other = decoded.find(id);
    found.push_back(other != decoded.end() ? other->second : names[at]);
  }
  for (std::string& name : found) {
    if (!strips_mark) break;
    const bool marked = name.starts_with(kWordMark);
    if (marked) name.erase(0, kWordMark.size());
    if (!name.empty() || (marked && !strips_marks)) break;
  }
  return decoder.decode(std::move(found));
}

}  // namespace mlx::data::subword
