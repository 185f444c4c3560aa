// The message, its normaliser, and the models made of its pieces.

#include "data/subword/sentencepiece.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "data/subword/bpe.h"
#include "data/subword/byte_tokens.h"
#include "data/subword/charsmap.h"
#include "data/subword/protobuf.h"
#include "data/subword/unigram.h"
#include "data/subword/utf8.h"

namespace mlx::data::subword {
namespace {

constexpr std::size_t kLongestPiece = 256;
constexpr const char* kBadByte = "\xEF\xBF\xBD";

enum class PieceType : std::uint8_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6
};

struct ScoredPiece {
  std::string text;
  float score = 0;
  PieceType type = PieceType::kNormal;
};

struct SentencePieceModel {
  std::vector<ScoredPiece> pieces;
  std::uint64_t type = 1;  // 1: unigram, 2: BPE
  bool byte_fallback = false, suffix = false;
  std::string unknown_surface = " \xE2\x81\x87 ";
  std::string charsmap;
  bool dummy_prefix = true, single_blanks = true, marks = true;
};

ScoredPiece read_piece(std::string_view bytes, const std::string& what) {
  ScoredPiece out;
  ProtobufReader reader(bytes, what);
  for (ProtobufField field; reader.next(field);) {
    if (field.number == 1) out.text = field.bytes;
    if (field.number == 2) out.score = field.real();
    if (field.number == 3) out.type = static_cast<PieceType>(std::clamp<std::uint64_t>(field.integer, 0, 7));
  }
  const bool known = out.type >= PieceType::kNormal && out.type <= PieceType::kByte;
  if (out.text.empty() || out.text.size() > kLongestPiece || !known || !(out.score == out.score))
    fail(ErrorKind::kCorrupt, "{}: a piece is empty, too long, or of no known type", what);
  return out;
}

void read_trainer(std::string_view bytes, const std::string& what, SentencePieceModel& out) {
  ProtobufReader reader(bytes, what);
  for (ProtobufField field; reader.next(field);) {
    if (field.number == 3) out.type = field.integer;
    if (field.number == 24) out.suffix = field.integer != 0;
    if (field.number == 35) out.byte_fallback = field.integer != 0;
    if (field.number == 44) out.unknown_surface = field.bytes;
  }
}

void read_normalizer(std::string_view bytes, const std::string& what, SentencePieceModel& out) {
  ProtobufReader reader(bytes, what);
  for (ProtobufField field; reader.next(field);) {
    if (field.number == 2) out.charsmap = field.bytes;
    if (field.number == 3) out.dummy_prefix = field.integer != 0;
    if (field.number == 4) out.single_blanks = field.integer != 0;
    if (field.number == 5) out.marks = field.integer != 0;
  }
}

SentencePieceModel read_message(std::string_view bytes, const std::string& what) {
  SentencePieceModel out;
  ProtobufReader reader(bytes, what);
  for (ProtobufField field; reader.next(field);) {
    if (field.number == 1) out.pieces.push_back(read_piece(field.bytes, what));
    if (field.number == 2) read_trainer(field.bytes, what, out);
    if (field.number == 3) read_normalizer(field.bytes, what, out);
    if (out.pieces.size() > static_cast<std::size_t>(kMostTokens))
      fail(ErrorKind::kCorrupt, "{}: too many pieces", what);
  }
  if (out.pieces.empty()) fail(ErrorKind::kCorrupt, "{}: it has no pieces", what);
  return out;
}

// Replaces characters by the table, runs of blanks by one, and blanks by their mark; a mark is put in front.
class SentencePieceNormalizer final : public Normalizer {
 public:
  SentencePieceNormalizer(const SentencePieceModel& model, const std::string& what)
      : map_(model.charsmap, what),
        prefix_(model.dummy_prefix),
        suffix_(model.suffix),
        single_(model.single_blanks),
        blank_(model.marks ? kWordMark : " ") {
    for (const ScoredPiece& piece : model.pieces)
      if (piece.type == PieceType::kUserDefined) kept_.set(piece.text, 1);
  }

  void apply(AlignedText& aligned, bool begins) const override {
    const std::string text = aligned.text();
    std::string out;
    std::vector<std::uint32_t> from;  // by byte of `out`: where it begins in `text`
    std::size_t at = 0;
    const auto add = [&](std::string_view bytes) {
      out += bytes;
      from.insert(from.end(), bytes.size(), static_cast<std::uint32_t>(at));
    };
    while (single_ && at < text.size()) {
      const Charsmap::Found next = next_part(text, at);
      if (next.replacement != " ") break;
      at += next.bytes;
    }
    if (at == text.size()) return aligned.become({}, {});
    // A later part of a text begins behind white space, which the part before has lost.
    if (!suffix_ && (begins ? prefix_ : single_)) add(blank_);
    bool after_blank = single_;
    while (at < text.size()) {
      const Charsmap::Found next = next_part(text, at);
      std::string_view part = next.replacement;
      while (after_blank && part.starts_with(' ')) part.remove_prefix(1);
      for (const char byte : part) add(byte == ' ' ? blank_ : std::string_view(&byte, 1));
      if (!part.empty()) after_blank = single_ && part.ends_with(' ');
      at += next.bytes;
    }
    while (single_ && out.ends_with(blank_)) {
      at = from[out.size() - blank_.size()];
      out.resize(out.size() - blank_.size());
      from.resize(out.size());
    }
    if (suffix_ && prefix_) add(blank_);
    from.push_back(static_cast<std::uint32_t>(at));
    std::vector<Span> spans(out.size());
    for (std::size_t i = 0; i < spans.size(); ++i) spans[i] = {aligned.base() + from[i], aligned.base() + from[i + 1]};
    aligned.become(std::move(out), std::move(spans));
  }

 private:
  Charsmap::Found next_part(std::string_view text, std::size_t at) const {
    std::size_t kept = 0;
    kept_.each_prefix(text, at, [&](std::size_t end, std::int32_t) { kept = end - at; });
    if (kept > 0) return {text.substr(at, kept), kept};
    if (const std::optional<Charsmap::Found> found = map_.longest(text.substr(at))) return *found;
    const Character character = character_at(text, at);
    if (character.code >= kCodePoints) return {kBadByte, 1};
    return {text.substr(at, character.bytes), character.bytes};
  }

  Charsmap map_;
  Trie kept_;  // user-defined pieces
  bool prefix_, suffix_, single_;
  std::string_view blank_;
};

bool is_found_in_text(const ScoredPiece& piece) {
  return piece.type == PieceType::kNormal || piece.type == PieceType::kUserDefined || piece.type == PieceType::kUnused;
}

std::array<std::int32_t, 256> byte_tokens_of(const SentencePieceModel& model) {
  std::array<std::int32_t, 256> out{};
  out.fill(-1);
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const std::optional<unsigned char> byte = byte_named(model.pieces[id].text);
    if (byte && model.pieces[id].type == PieceType::kByte) out[*byte] = static_cast<std::int32_t>(id);
  }
  return out;
}

std::int32_t unknown_of(const SentencePieceModel& model, const std::string& what) {
  const auto found = std::ranges::find(model.pieces, PieceType::kUnknown, &ScoredPiece::type);
  if (found == model.pieces.end()) fail(ErrorKind::kCorrupt, "{}: it has no unknown piece", what);
  return static_cast<std::int32_t>(found - model.pieces.begin());
}

ModelPtr make_unigram(const SentencePieceModel& model, std::int32_t unknown) {
  UnigramSpec spec;
  spec.single_precision = true;
  spec.unknown = unknown;
  spec.byte_fallback = model.byte_fallback;
  spec.byte_tokens = byte_tokens_of(model);
  float least = std::numeric_limits<float>::max(), most = std::numeric_limits<float>::lowest();
  for (const ScoredPiece& piece : model.pieces) {
    if (piece.type != PieceType::kNormal) continue;
    least = std::min(least, piece.score);
    most = std::max(most, piece.score);
  }
  constexpr float kUnknownPenalty = 10;
  spec.unknown_score = static_cast<double>(least - kUnknownPenalty);
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const ScoredPiece& piece = model.pieces[id];
    // Above all that its bytes could score otherwise.
    const auto of_user = static_cast<float>(static_cast<double>(static_cast<float>(piece.text.size()) * most) - 0.1);
    spec.scores.push_back(piece.type == PieceType::kUserDefined ? static_cast<double>(of_user)
                                                                : static_cast<double>(piece.score));
    if (is_found_in_text(piece) && piece.type != PieceType::kUnused)
      spec.pieces.set(piece.text, static_cast<std::int32_t>(id));
  }
  return std::make_unique<Unigram>(std::move(spec));
}

// Pieces and the characters of pieces are symbols; every way to put a piece together from two symbols is a merge, with
// the rank of the piece's score.
ModelPtr make_bpe(const SentencePieceModel& model, std::int32_t unknown, const std::string& what) {
  StringTable symbols;
  std::vector<float> scores;
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const ScoredPiece& piece = model.pieces[id];
    if (piece.type == PieceType::kUnused)
      fail(ErrorKind::kUsage, "{}: a BPE model with unused pieces is not supported", what);
    if (is_found_in_text(piece)) symbols.set(piece.text, static_cast<std::int32_t>(id));
    scores.push_back(piece.score);
  }
  std::ranges::sort(scores, std::ranges::greater());
  scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
  auto next = static_cast<std::int32_t>(model.pieces.size());
  const auto symbol_of = [&](std::string_view text) {
    const std::int32_t known = symbols.find(text);
    if (known >= 0 || character_at(text, 0).bytes != text.size()) return known;
    symbols.set(text, next);  // a character that is no piece
    return next++;
  };
  MergeTable merges;
  for (const ScoredPiece& piece : model.pieces) {
    if (piece.type != PieceType::kNormal) continue;
    const std::string_view text = piece.text;
    const std::int32_t whole = symbols.find(text);
    const auto rank = static_cast<std::uint32_t>(std::ranges::lower_bound(scores, piece.score, std::ranges::greater()) -
                                                 scores.begin());
    for (std::size_t at = character_at(text, 0).bytes; at < text.size(); at += character_at(text, at).bytes) {
      const std::int32_t left = symbol_of(text.substr(0, at)), right = symbol_of(text.substr(at));
      if (left >= 0 && right >= 0) merges.set(left, right, rank, whole);
    }
  }
  BpeSpec spec;
  spec.unknown = unknown;
  spec.fuse_unknown = true;
  spec.byte_fallback = model.byte_fallback;
  spec.byte_tokens = byte_tokens_of(model);
  spec.tokens = static_cast<std::int32_t>(model.pieces.size());
  spec.word_mark = true;
  for (const ScoredPiece& piece : model.pieces) spec.word_mark &= !is_found_in_text(piece) || !marks_inside(piece.text);
  return std::make_unique<Bpe>(std::move(spec), std::move(symbols), std::move(merges));
}

void add_names(const SentencePieceModel& model, Pipeline& out) {
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const ScoredPiece& piece = model.pieces[id];
    const bool control = piece.type == PieceType::kControl, unknown = piece.type == PieceType::kUnknown;
    out.names.push_back(piece.text);
    out.pieces.push_back(control ? std::string() : unknown ? model.unknown_surface : out.decoder.inside(piece.text));
    out.special.push_back(control);
    out.is_added.push_back(false);
    if (piece.type != PieceType::kUserDefined || model.type != 2) continue;
    AddedToken token;
    token.content = piece.text;
    token.id = static_cast<std::int32_t>(id);
    out.normalized_added.add(token, piece.text);
  }
}

}  // namespace

bool may_be_sentencepiece(std::string_view bytes) {
  return bytes.starts_with('\n');  // field 1, the first piece; JSON that begins with a line feed goes on with '{'
}

Pipeline read_sentencepiece(std::string_view bytes, const std::string& what) {
  const SentencePieceModel model = read_message(bytes, what);
  if (model.type != 1 && model.type != 2)
    fail(ErrorKind::kUsage, "{}: a SentencePiece model of words or characters is not supported", what);
  const std::int32_t unknown = unknown_of(model, what);
  Pipeline out;
  out.kind = model.type == 1 ? "unigram" : "bpe";
  out.normalizer = std::make_unique<SentencePieceNormalizer>(model, what);
  out.model = model.type == 1 ? make_unigram(model, unknown) : make_bpe(model, unknown, what);
  const Json steps = Json::array({{{"type", "Replace"}, {"pattern", {{"String", kWordMark}}}, {"content", " "}},
                                  {{"type", "ByteFallback"}},
                                  {{"type", "Fuse"}}});
  out.strips_mark = model.dummy_prefix || model.single_blanks;
  out.strips_marks = model.single_blanks;
  out.decoder = Decoder({{"type", "Sequence"}, {"decoders", steps}}, what);
  add_names(model, out);
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {  // as they are decoded
    if (model.pieces[id].type == PieceType::kControl) out.decoded[static_cast<std::int32_t>(id)] = "";
    if (model.pieces[id].type == PieceType::kUnknown)
      out.decoded[static_cast<std::int32_t>(id)] = model.unknown_surface;
  }
  return out;
}

}  // namespace mlx::data::subword
