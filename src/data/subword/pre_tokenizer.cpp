// The kinds of pre-tokenisers and their JSON.

#include "data/subword/pre_tokenizer.h"

#include <array>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "data/subword/byte_alphabet.h"
#include "data/subword/json_keys.h"
#include "data/subword/pattern.h"
#include "data/subword/scanners.h"
#include "data/subword/unicode.h"

namespace mlx::data::subword {
namespace {

// What becomes of the matches of a pattern.
enum class SplitBehavior : std::uint8_t { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct Segment {
  std::uint32_t begin = 0, end = 0;
  bool match = false;
};

// Appends the words that segments make.
void join_segments(const std::vector<Segment>& segments, SplitBehavior behavior, std::vector<Piece>& out) {
  const std::size_t first = out.size();
  bool before = false;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const Segment& segment = segments[i];
    const bool next_word = i + 1 < segments.size() && !segments[i + 1].match;
    const bool has_word = out.size() > first;
    switch (behavior) {
      case SplitBehavior::kRemoved:
        if (!segment.match) out.push_back({segment.begin, segment.end, -1});
        break;
      case SplitBehavior::kIsolated:
        out.push_back({segment.begin, segment.end, -1});
        break;
      case SplitBehavior::kMergedWithPrevious:
        if (segment.match && !before && has_word) {
          out.back().end = segment.end;
        } else {
          out.push_back({segment.begin, segment.end, -1});
        }
        break;
      case SplitBehavior::kMergedWithNext: {
        const std::uint32_t begin = segment.begin;
        if (segment.match && next_word) ++i;
        out.push_back({begin, segments[i].end, -1});
        break;
      }
      case SplitBehavior::kContiguous:
        if (segment.match == before && has_word) {
          out.back().end = segment.end;
        } else {
          out.push_back({segment.begin, segment.end, -1});
        }
        break;
    }
    before = segments[i].match;
  }
}

// Cuts every word that is no added token; `find(text, base, segments)` finds the matches in one.
template <typename Find>
void cut_pieces(PreTokens& tokens, SplitBehavior behavior, const Find& find) {
  std::vector<Segment> segments;
  tokens.next.clear();
  for (const Piece& piece : tokens.pieces) {
    if (piece.token >= 0) {
      tokens.next.push_back(piece);
      continue;
    }
    segments.clear();
    find(tokens.text.substr(piece.begin, piece.end - piece.begin), piece.begin, segments);
    join_segments(segments, behavior, tokens.next);
  }
  std::erase_if(tokens.next, [](const Piece& piece) { return piece.begin == piece.end; });
  tokens.pieces.swap(tokens.next);
}

// Cuts at characters: each that `matches` is a match of its own.
template <typename Matches>
void cut_at_characters(PreTokens& tokens, SplitBehavior behavior, const Matches& matches) {
  cut_pieces(tokens, behavior, [&](std::string_view text, std::uint32_t base, std::vector<Segment>& segments) {
    std::uint32_t done = 0;
    for (std::uint32_t at = 0; at < text.size();) {
      const Character character = character_at(text, at);
      const std::uint32_t end = at + character.bytes;
      if (matches(character.code)) {
        if (done < at) segments.push_back({base + done, base + at, false});
        segments.push_back({base + at, base + end, true});
        done = end;
      }
      at = end;
    }
    if (done < text.size()) segments.push_back({base + done, base + static_cast<std::uint32_t>(text.size()), false});
  });
}

// Rewrites the text word by word: `rewrite(part, piece)` changes the text of one.
template <typename Rewrite>
void rewrite_pieces(PreTokens& tokens, const Rewrite& rewrite) {
  tokens.own_text();
  AlignedText whole, part;
  whole.clear(tokens.aligned);
  for (Piece& piece : tokens.pieces) {
    const auto begin = static_cast<std::uint32_t>(whole.text().size());
    part.assign(tokens.own, piece.begin, piece.end);
    if (piece.token < 0) rewrite(part, piece);
    whole.append(part);
    piece.begin = begin;
    piece.end = static_cast<std::uint32_t>(whole.text().size());
  }
  tokens.own = std::move(whole);
  tokens.text = tokens.own.text();
}

class Split final : public PreTokenizer {
 public:
  Split(Pattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)),
        behavior_(behavior),
        invert_(invert),
        scanned_(scanned_pattern(pattern_.regex())) {
    // Of a pattern that matches all of a text nothing else may be left.
    const bool keeps_words = behavior == SplitBehavior::kIsolated || (behavior == SplitBehavior::kRemoved && invert);
    if (!keeps_words) scanned_.reset();
  }
  void apply(PreTokens& tokens) const override {
    if (scanned_) return scan(tokens);
    Regex::Budget budget(tokens.text);
    cut_pieces(tokens, behavior_, [&](std::string_view text, std::uint32_t base, std::vector<Segment>& segments) {
      pattern_.each(text, budget, [&](std::size_t begin, std::size_t end, bool match) {
        segments.push_back(
            {base + static_cast<std::uint32_t>(begin), base + static_cast<std::uint32_t>(end), match != invert_});
      });
    });
  }

 private:
  void scan(PreTokens& tokens) const {
    tokens.next.clear();
    for (const Piece& piece : tokens.pieces)
      piece.token >= 0 ? tokens.next.push_back(piece) : scan_words(*scanned_, tokens.text, piece, tokens.next);
    tokens.pieces.swap(tokens.next);
  }
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
  std::optional<ScannedPattern> scanned_;
};

class PrefixSpace final : public PreTokenizer {
 public:
  void apply(PreTokens& tokens) const override {
    bool first = !tokens.begins;  // a later part of a text gets none in front
    rewrite_pieces(tokens, [&first](AlignedText& part, const Piece& /*piece*/) {
      const bool skipped = std::exchange(first, false);
      if (!skipped && !part.text().starts_with(' ')) part.prepend(" ");
    });
  }
};

class ByteCharacters final : public PreTokenizer {
 public:
  void apply(PreTokens& tokens) const override {
    rewrite_pieces(tokens, [this](AlignedText& part, const Piece& /*piece*/) { part.map_characters(characters_); });
  }

 private:
  CharacterMap characters_{[](char32_t code, std::string& out) {
    std::string bytes;
    append_utf8(bytes, code);
    out += to_byte_characters(bytes);
  }};
};

class Metaspace final : public PreTokenizer {
 public:
  enum class Prefix : std::uint8_t { kAlways, kFirst, kNever };
  Metaspace(std::string mark, Prefix prefix, bool split) : mark_(std::move(mark)), prefix_(prefix), split_(split) {}
  void apply(PreTokens& tokens) const override {
    bool later = !tokens.begins;
    rewrite_pieces(tokens, [&](AlignedText& part, const Piece& piece) {
      const bool first = tokens.aligned ? part.base() == 0 : piece.begin == 0;
      mark_blanks(part);
      const bool skipped = std::exchange(later, false) || part.text().starts_with(mark_);
      if (!skipped && (prefix_ == Prefix::kAlways || (prefix_ == Prefix::kFirst && first))) part.prepend(mark_);
    });
    if (!split_) return;
    const char32_t mark = character_at(mark_, 0).code;
    cut_at_characters(tokens, SplitBehavior::kMergedWithNext, [mark](char32_t code) { return code == mark; });
  }

 private:
  void mark_blanks(AlignedText& part) const {
    if (part.text().find(' ') == std::string::npos) return;
    AlignedText::Rewriting out(part);
    std::size_t done = 0;
    for (std::size_t at = part.text().find(' '); at != std::string::npos; at = part.text().find(' ', done)) {
      if (at > done) out.copy(done, at);
      out.insert(mark_, at);
      done = at + 1;
    }
    if (done < part.text().size()) out.copy(done, part.text().size());
    out.finish();
  }
  std::string mark_;
  Prefix prefix_;
  bool split_;
};

// Cuts at characters of one sort.
class CharacterSplit final : public PreTokenizer {
 public:
  using Matches = bool (*)(char32_t);
  CharacterSplit(Matches matches, SplitBehavior behavior) : matches_(matches), behavior_(behavior) {
    for (char32_t code = 0; code < ascii_.size(); ++code) ascii_[code] = matches(code);
  }
  void apply(PreTokens& tokens) const override {
    cut_at_characters(tokens, behavior_,
                      [this](char32_t code) { return code < ascii_.size() ? ascii_[code] : matches_(code); });
  }

 private:
  Matches matches_;
  SplitBehavior behavior_;
  std::array<bool, CharacterMap::kAscii> ascii_{};
};

class Delimiter final : public PreTokenizer {
 public:
  explicit Delimiter(char32_t delimiter) : delimiter_(delimiter) {}
  void apply(PreTokens& tokens) const override {
    cut_at_characters(tokens, SplitBehavior::kRemoved, [this](char32_t code) { return code == delimiter_; });
  }

 private:
  char32_t delimiter_;
};

bool is_cut_punctuation(char32_t code) {
  const bool ascii = (code >= '!' && code <= '/') || (code >= ':' && code <= '@') || (code >= '[' && code <= '`') ||
                     (code >= '{' && code <= '~');
  return ascii || (code >= 128 && is_in(kPunctuation, code));
}
bool is_numeric(char32_t code) {
  return is_in(kNumbers, code);
}

// Runs of word characters, and runs of what is neither one nor white space.
class WordRuns final : public PreTokenizer {
 public:
  void apply(PreTokens& tokens) const override {
    cut_pieces(tokens, SplitBehavior::kRemoved,
               [](std::string_view text, std::uint32_t base, std::vector<Segment>& out) {
                 int before = -1;
                 for (std::uint32_t at = 0; at < text.size();) {
                   const Character character = character_at(text, at);
                   const bool joiner = character.code == 0x200C || character.code == 0x200D;
                   const int now = is_word(character.code) || joiner ? 0 : is_white_space(character.code) ? 2 : 1;
                   if (now != before) out.push_back({base + at, base + at, now == 2});
                   out.back().end = base + at + character.bytes;
                   before = now;
                   at += character.bytes;
                 }
               });
  }
};

SplitBehavior behavior_of(const Json& json, SplitBehavior otherwise, const std::string& what) {
  if (!has_key(json, "behavior")) return otherwise;
  const std::string name = json_string(json, "behavior", what);
  constexpr std::array<std::pair<const char*, SplitBehavior>, 5> kBehaviors = {
      {{"Removed", SplitBehavior::kRemoved},
       {"Isolated", SplitBehavior::kIsolated},
       {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
       {"MergedWithNext", SplitBehavior::kMergedWithNext},
       {"Contiguous", SplitBehavior::kContiguous}}};
  for (const auto& [known, behavior] : kBehaviors)
    if (name == known) return behavior;
  fail(ErrorKind::kCorrupt, "{}: 'behavior' is \"{}\"", what, name.substr(0, 40));
}

PreTokenizerPtr make_metaspace(const Json& json, const std::string& what) {
  const std::string mark = text_or(json, "replacement", "\xE2\x96\x81", what);
  if (mark.empty() || character_at(mark, 0).bytes != mark.size())
    fail(ErrorKind::kCorrupt, "{}: 'replacement' is not one character", what);
  const bool prefix = flag(json, "add_prefix_space", true, what);
  const std::string scheme = text_or(json, "prepend_scheme", prefix ? "always" : "never", what);
  if (scheme != "always" && scheme != "first" && scheme != "never")
    fail(ErrorKind::kCorrupt, "{}: 'prepend_scheme' is \"{}\"", what, scheme.substr(0, 40));
  return std::make_unique<Metaspace>(mark,
                                     scheme == "always"  ? Metaspace::Prefix::kAlways
                                     : scheme == "first" ? Metaspace::Prefix::kFirst
                                                         : Metaspace::Prefix::kNever,
                                     flag(json, "split", true, what));
}

void add_steps(const Json& json, const std::string& where, PreTokenizers& out) {
  const std::string type = json_string(json, "type", where), what = where + ": " + type;
  if (out.bytes) {  // something follows ByteLevel, and sees its alphabet
    if (std::exchange(out.rewrites_bytes, true))
      fail(ErrorKind::kUsage, "{}: ByteLevel in a row is not supported", where);
    out.steps.push_back(std::make_unique<ByteCharacters>());
    out.bytes = false;
  }
  const auto add = [&out](auto step) { out.steps.push_back(std::move(step)); };
  const auto characters = [&add](CharacterSplit::Matches matches, SplitBehavior behavior) {
    add(std::make_unique<CharacterSplit>(matches, behavior));
  };
  if (type == "Sequence") {
    for (const Json& part : json_array(json, "pretokenizers", what)) add_steps(part, where, out);
  } else if (type == "ByteLevel") {
    if (flag(json, "add_prefix_space", true, what)) add(std::make_unique<PrefixSpace>());
    if (flag(json, "use_regex", true, what))
      add(std::make_unique<Split>(Pattern(Regex(kGpt2Pattern, what)), SplitBehavior::kIsolated, false));
    out.bytes = true;
  } else if (type == "Split") {
    add(std::make_unique<Split>(read_pattern(json, what), behavior_of(json, SplitBehavior::kIsolated, what),
                                flag(json, "invert", false, what)));
  } else if (type == "Metaspace") {
    add(make_metaspace(json, what));
  } else if (type == "Whitespace") {
    add(std::make_unique<WordRuns>());
  } else if (type == "WhitespaceSplit") {
    characters(is_white_space, SplitBehavior::kRemoved);
  } else if (type == "BertPreTokenizer") {
    characters(is_white_space, SplitBehavior::kRemoved);
    characters(is_cut_punctuation, SplitBehavior::kIsolated);
  } else if (type == "Punctuation") {
    characters(is_cut_punctuation, behavior_of(json, SplitBehavior::kIsolated, what));
  } else if (type == "Digits") {
    const bool single = flag(json, "individual_digits", false, what);
    characters(is_numeric, single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  } else if (type == "CharDelimiterSplit") {
    const std::string delimiter = json_string(json, "delimiter", what);
    if (delimiter.empty()) fail(ErrorKind::kCorrupt, "{}: 'delimiter' is empty", what);
    add(std::make_unique<Delimiter>(character_at(delimiter, 0).code));
  } else {
    refuse_kind("pre-tokenizer", type, where);
  }
}

}  // namespace

void PreTokens::own_text() {
  if (rewritten) return;
  own.assign(text, 0, aligned);
  text = own.text();
  rewritten = true;
}

Span PreTokens::span_at(std::size_t byte) const {
  if (rewritten) return own.span(byte);
  std::size_t begin = byte;
  while (begin > 0 && byte - begin < 3 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  const std::size_t end = begin + character_at(text, begin).bytes;
  if (end > byte) return {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
  return {static_cast<std::uint32_t>(byte), static_cast<std::uint32_t>(byte + 1)};  // not UTF-8
}

PreTokenizers make_pre_tokenizers(const Json& json, const std::string& what) {
  PreTokenizers out;
  if (!json.is_null()) add_steps(json, what, out);
  return out;
}

}  // namespace mlx::data::subword
