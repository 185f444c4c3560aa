// Bytes and characters as tokens; the other kinds are subword_tokenizer.h's.

#include "data/tokenizer.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/json.h"
#include "data/subword/utf8.h"
#include "data/subword_tokenizer.h"

namespace mlx::data {
namespace {

constexpr const char* kFormat = "mlx-tokenizer";
constexpr std::int64_t kVersion = 1;
// The character at the front of `text`, which is not empty; no bytes: this is not UTF-8.
subword::Character first_character(std::string_view text) {
  const subword::Character found = subword::character_at(text, 0);
  return found.code < subword::kCodePoints ? found : subword::Character{0, 0};
}

std::string utf8(char32_t code) {
  std::string out;
  subword::append_utf8(out, code);
  return out;
}

// A file that to_json made says so in its first bytes, which are canonical JSON.
bool is_own_format(std::string_view bytes) {
  constexpr std::size_t kHead = 256;
  return bytes.substr(0, kHead).find(kFormat) != std::string_view::npos;
}

[[noreturn]] void not_utf8(std::string_view what, std::uint64_t offset) {
  throw Error(ErrorKind::kUsage, fmt::format("{}: not UTF-8 at offset {}", what, offset),
              "tokenizer = \"bytes\" takes anything");
}

// "'é' (U+00E9)"; only the number for characters that would move a terminal's cursor.
std::string shown(char32_t code, std::string_view character) {
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  return control ? fmt::format("U+{:04X}", std::uint32_t{code})
                 : fmt::format("'{}' (U+{:04X})", character, std::uint32_t{code});
}

}  // namespace

Tokenizer::Tokenizer(std::string kind, std::vector<std::string> pieces)
    : kind_(std::move(kind)), pieces_(std::move(pieces)) {
  if (kind_ != "chars") return;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const char32_t code = first_character(pieces_[i]).code;
    if (tokens_.size() <= code) tokens_.resize(code + 1, kUnknown);
    tokens_[code] = static_cast<std::int32_t>(i);
  }
}

Tokenizer Tokenizer::bytes() {
  std::vector<std::string> pieces;
  pieces.reserve(256);
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  return {"bytes", std::move(pieces)};
}

Tokenizer Tokenizer::chars(std::string_view text, std::string_view what) {
  CharacterSet characters;
  characters.add(text, what, 0);
  return characters.tokenizer();
}

Tokenizer::CharacterSet::CharacterSet() : seen_(subword::kCodePoints, 0) {}

void Tokenizer::CharacterSet::add(std::string_view piece, std::string_view what, std::uint64_t offset) {
  for (std::size_t at = 0; at < piece.size();) {
    const subword::Character character = first_character(piece.substr(at));
    if (character.bytes == 0) not_utf8(what, offset + at);
    seen_[character.code] = 1;
    at += character.bytes;
  }
}

Tokenizer Tokenizer::CharacterSet::tokenizer() const {
  std::vector<std::string> pieces;
  for (char32_t code = 0; code < subword::kCodePoints; ++code)
    if (seen_[code]) pieces.push_back(utf8(code));
  return {"chars", std::move(pieces)};
}

Tokenizer Tokenizer::from_file(std::string_view bytes, const std::string& what) {
  if (is_own_format(bytes)) return from_json(parse_json(bytes, what), what);
  auto subword = std::make_shared<const Subword>(std::string(bytes), what);
  Tokenizer out(subword->kind(), {});
  out.subword_ = std::move(subword);
  return out;
}

std::string Tokenizer::file() const {
  return subword_ ? subword_->file() : canonical(to_json());
}

const char* Tokenizer::file_name() const {
  return subword_ && subword_->is_sentencepiece() ? "tokenizer.model" : "tokenizer.json";
}

bool Tokenizer::operator==(const Tokenizer& other) const {
  if (kind_ != other.kind_ || (subword_ == nullptr) != (other.subword_ == nullptr)) return false;
  return subword_ ? subword_->file() == other.subword_->file() : pieces_ == other.pieces_;
}

std::int64_t Tokenizer::size() const {
  return subword_ ? subword_->size() : static_cast<std::int64_t>(pieces_.size());
}

Tokenizer Tokenizer::from_json(const Json& json, std::string_view what) {
  const std::string format = json_string(json, "format", what);
  if (format != kFormat) fail(ErrorKind::kCorrupt, "{}: 'format': expected \"{}\", got \"{}\"", what, kFormat, format);
  const std::string kind = json_string(json, "kind", what);
  if (json_int(json, "version", what) != kVersion || (kind != "bytes" && kind != "chars")) {
    throw Error(ErrorKind::kCorrupt, fmt::format("{}: a tokenizer of kind \"{}\" is not known", what, kind),
                "a newer mlx may read it");
  }
  if (kind == "bytes") return bytes();
  std::vector<std::string> pieces;
  char32_t before = 0;
  for (const Json& piece : json_array(json, "pieces", what)) {
    const std::string text = piece.is_string() ? piece.get<std::string>() : std::string();
    const subword::Character character = text.empty() ? subword::Character{0, 0} : first_character(text);
    if (character.bytes == 0 || character.bytes != text.size() || (!pieces.empty() && character.code <= before)) {
      fail(ErrorKind::kCorrupt, "{}: 'pieces': expected single characters in the order of their code points, not #{}",
           what, pieces.size() + 1);
    }
    before = character.code;
    pieces.push_back(text);
  }
  if (pieces.empty()) fail(ErrorKind::kCorrupt, "{}: 'pieces' is empty", what);
  return {kind, std::move(pieces)};
}

Json Tokenizer::to_json() const {
  Json out = {{"format", kFormat}, {"version", kVersion}, {"kind", kind_}};
  if (kind_ != "bytes") out["pieces"] = pieces_;
  return out;
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, std::string_view what, std::int64_t* unknown,
                                            std::uint64_t offset, bool begins) const {
  if (subword_) return subword_->encode(text, what, begins);
  std::vector<std::int32_t> out;
  out.reserve(text.size());
  if (kind_ == "bytes") {
    std::ranges::transform(text, std::back_inserter(out), [](char c) { return static_cast<unsigned char>(c); });
    return out;
  }
  for (std::size_t at = 0; at < text.size();) {
    const subword::Character character = first_character(text.substr(at));
    if (character.bytes == 0) not_utf8(what, offset + at);
    const std::int32_t token = character.code < tokens_.size() ? tokens_[character.code] : kUnknown;
    if (token == kUnknown && unknown == nullptr) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("{}: the character {} at offset {} is not among the {} that the model knows", what,
                              shown(character.code, text.substr(at, character.bytes)), offset + at, size()),
                  "the vocabulary comes from the training text; tokenizer = \"bytes\" takes any text");
    }
    if (token == kUnknown) ++*unknown;
    out.push_back(token);
    at += character.bytes;
  }
  return out;
}

PlacedTokens Tokenizer::encode_placed(std::string_view text, std::string_view what, bool special) const {
  if (subword_) return subword_->encode_placed(text, what, special);
  PlacedTokens out{encode(text, what), {}};
  std::uint32_t at = 0;
  for (const std::int32_t id : out.ids) {
    const auto bytes = static_cast<std::uint32_t>(piece(id).size());
    out.places.emplace_back(at, at + bytes);
    at += bytes;
  }
  return out;
}

std::size_t Tokenizer::unfinished(std::string_view text) const {
  if (subword_) return unfinished_words(text);
  if (kind_ != "chars") return 0;
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

std::string_view Tokenizer::piece(std::int32_t token) const {
  if (token < 0 || token >= size()) return {};
  if (subword_) return subword_->piece(token);
  return pieces_[static_cast<std::size_t>(token)];
}

std::string Tokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string out;
  for (const std::int32_t token : tokens) out += piece(token);
  return out;
}

std::string Tokenizer::decode_text(std::span<const std::int32_t> tokens, bool skip_special) const {
  return subword_ ? subword_->decode(tokens, skip_special) : decode(tokens);
}

bool Tokenizer::is_special(std::int32_t token) const {
  return subword_ && subword_->is_special(token);
}

std::string Tokenizer::name(std::int32_t token) const {
  return std::string(subword_ ? subword_->name(token) : piece(token));
}

}  // namespace mlx::data
