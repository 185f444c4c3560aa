// The names of tokens that stand for one byte where a text has a character outside the vocabulary: "<0x00>" to
// "<0xFF>". Used by models, decoders and pieces.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mlx::data::subword {

std::string byte_name(unsigned char byte);
std::optional<unsigned char> byte_named(std::string_view name);
bool is_whole_utf8(std::string_view text);
// `text` begins with no UTF-8 character: the bytes that a decoder replaces by one U+FFFD (the longest part that begins
// a character, or one byte).
std::size_t invalid_prefix(std::string_view text);

}  // namespace mlx::data::subword
