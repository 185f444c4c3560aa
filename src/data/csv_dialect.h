// What programs write under the name of CSV that RFC 4180 does not know: other separators, decimal commas,
// Windows-1252. Used by the reader of CSV.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mlx::data {

// The first of , ; tab | that cuts each of the first lines of `text` into the same number of cells, at least two; a
// comma where none does. `whole`: nothing stands behind `text`.
char find_separator(std::string_view text, bool whole);
bool has_decimal_comma(std::string_view cell);  // -1,5 and 1,5e-3; not 1,000,000
bool has_high_byte(std::string_view text);      // is not ASCII
// Latin-1 with what Windows has in place of its control characters; nullopt for the five bytes that it does not define.
std::optional<std::string> from_windows_1252(std::string_view text);

}  // namespace mlx::data
