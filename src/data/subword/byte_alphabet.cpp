// Printable bytes of Latin-1 stand for themselves, the others for the characters from U+0100 on.

#include "data/subword/byte_alphabet.h"

#include "data/subword/utf8.h"

namespace mlx::data::subword {
namespace {

constexpr std::array<char32_t, 256> made_characters() {
  std::array<char32_t, 256> out{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte != 0xAD);
    out[byte] = printable ? byte : next++;
  }
  return out;
}
constexpr std::array<char32_t, 256> kByteCharacters = made_characters();

constexpr std::array<int, 0x144> made_bytes() {
  std::array<int, 0x144> out{};
  for (int& byte : out) byte = -1;
  for (int byte = 0; byte < 256; ++byte) out[kByteCharacters[static_cast<std::size_t>(byte)]] = byte;
  return out;
}
constexpr std::array<int, 0x144> kCharacterBytes = made_bytes();

}  // namespace

const std::array<char32_t, 256>& byte_characters() {
  return kByteCharacters;
}

std::string to_byte_characters(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) append_utf8(out, kByteCharacters[static_cast<unsigned char>(byte)]);
  return out;
}

std::optional<std::string> from_byte_characters(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    if (character.code >= kCharacterBytes.size() || kCharacterBytes[character.code] < 0) return std::nullopt;
    out.push_back(static_cast<char>(kCharacterBytes[character.code]));
    at += character.bytes;
  }
  return out;
}

}  // namespace mlx::data::subword
