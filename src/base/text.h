// Small functions on text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mlx {

// `text` without blanks (space, tab, CR, LF) at its ends; a view into it.
std::string_view trimmed(std::string_view text);
std::string lower(std::string_view text);                        // A-Z only; other bytes stay
std::string grouped(std::uint64_t number);                       // "12,345"
std::string brief_number(double value);                          // four digits, or whole: "0.5149", "11372", "1.2e-05"
std::string hundredths(double value);                            // "0.25", "-1.50"; never "-0.00"
std::string counted(std::uint64_t count, const char* singular);  // "1 file", "12,345 files"
// What another machine or program says, on one line and safe for a terminal: line feeds and tabs become blanks, control
// characters and what is not UTF-8 become '?'.
std::string printable(std::string_view text);
// One word of a POSIX shell's command line that means `text`, quoted if it must be. For commands that people are told
// to type and that other programs run.
std::string shell_quoted(std::string_view text);

}  // namespace mlx
