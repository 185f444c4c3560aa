// The alphabet of byte-level tokenizers: a printable character stands for each byte, in GPT-2's order. Used by models,
// pre-tokenisers and decoders.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace mlx::data::subword {

// By byte.
const std::array<char32_t, 256>& byte_characters();
std::string to_byte_characters(std::string_view bytes);
// nullopt: a character stands for no byte.
std::optional<std::string> from_byte_characters(std::string_view text);

}  // namespace mlx::data::subword
