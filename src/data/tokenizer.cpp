// Bytes and characters as tokens (data/tokenizer.h). UTF-8 is decoded strictly (RFC 3629): no overlong forms, no
// surrogates.

#include "data/tokenizer.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/json.h"

namespace mlx::data {
namespace {

constexpr const char* kFormat = "mlx-tokenizer";
constexpr std::int64_t kVersion = 1;
constexpr std::uint32_t kCodePoints = 0x110000;

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 0;  // 0: this is not UTF-8
};

// The character at the front of `text`, which is not empty.
Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xF0 && lead < 0xF8 ? 4 : lead >= 0xE0 && lead < 0xF0 ? 3 : lead >= 0xC0 ? 2 : 0;
  if (length == 0 || lead >= 0xF8 || text.size() < length) return {};
  std::uint32_t code = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3F);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[length] || code >= kCodePoints || (code >= 0xD800 && code < 0xE000)) return {};
  return {code, length};
}

std::string utf8(std::uint32_t code) {
  const auto byte = [](std::uint32_t bits) { return static_cast<char>(static_cast<unsigned char>(bits)); };
  const auto rest = [&](unsigned shift) { return byte(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xC0 | code >> 6), rest(0)};
  if (code < 0x10000) return {byte(0xE0 | code >> 12), rest(6), rest(0)};
  return {byte(0xF0 | code >> 18), rest(12), rest(6), rest(0)};
}

[[noreturn]] void not_utf8(std::string_view what, std::uint64_t offset) {
  throw Error(ErrorKind::kUsage, fmt::format("{}: not UTF-8 at offset {}", what, offset),
              "tokenizer = \"bytes\" takes anything");
}

// "'é' (U+00E9)"; only the number for characters that would move a terminal's cursor.
std::string shown(std::uint32_t code, std::string_view character) {
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0);
  return control ? fmt::format("U+{:04X}", code) : fmt::format("'{}' (U+{:04X})", character, code);
}

}  // namespace

Tokenizer::Tokenizer(std::string kind, std::vector<std::string> pieces)
    : kind_(std::move(kind)), pieces_(std::move(pieces)) {
  if (kind_ != "chars") return;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    const std::uint32_t code = first_character(pieces_[i]).code;
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

Tokenizer::CharacterSet::CharacterSet() : seen_(kCodePoints, 0) {}

void Tokenizer::CharacterSet::add(std::string_view piece, std::string_view what, std::uint64_t offset) {
  for (std::size_t at = 0; at < piece.size();) {
    const Character character = first_character(piece.substr(at));
    if (character.bytes == 0) not_utf8(what, offset + at);
    seen_[character.code] = 1;
    at += character.bytes;
  }
}

Tokenizer Tokenizer::CharacterSet::tokenizer() const {
  std::vector<std::string> pieces;
  for (std::uint32_t code = 0; code < kCodePoints; ++code)
    if (seen_[code]) pieces.push_back(utf8(code));
  return {"chars", std::move(pieces)};
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
  std::uint32_t before = 0;
  for (const Json& piece : json_array(json, "pieces", what)) {
    const std::string text = piece.is_string() ? piece.get<std::string>() : std::string();
    const Character character = text.empty() ? Character{} : first_character(text);
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
                                            std::uint64_t offset) const {
  std::vector<std::int32_t> out;
  out.reserve(text.size());
  if (kind_ == "bytes") {
    std::ranges::transform(text, std::back_inserter(out), [](char c) { return static_cast<unsigned char>(c); });
    return out;
  }
  for (std::size_t at = 0; at < text.size();) {
    const Character character = first_character(text.substr(at));
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

std::size_t Tokenizer::unfinished(std::string_view text) const {
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
  return pieces_[static_cast<std::size_t>(token)];
}

std::string Tokenizer::decode(std::span<const std::int32_t> tokens) const {
  std::string out;
  for (const std::int32_t token : tokens) out += piece(token);
  return out;
}

}  // namespace mlx::data
