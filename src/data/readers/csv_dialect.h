// Dialects of CSV beyond RFC 4180: other separators, decimal commas, Windows-1252. Used by the reader of CSV.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mlx::data {

// The first of , ; tab | that cuts each of the first lines of `text` into the same number of cells, at least two; a
// comma if none does. `whole`: `text` is the whole file.
char find_separator(std::string_view text, bool whole);
bool has_decimal_comma(std::string_view cell);  // -1,5 and 1,5e-3; not 1,000,000
bool has_high_byte(std::string_view text);      // is not ASCII
// Decodes Windows-1252, which is Latin-1 with characters in place of the control codes; nullopt for the five undefined
// bytes.
std::optional<std::string> from_windows_1252(std::string_view text);

}  // namespace mlx::data
